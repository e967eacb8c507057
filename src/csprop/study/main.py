"""The paper's main table: four tasks, as printed and as a rotor, with both ways to split the data."""

import itertools
import statistics

from csprop.study.job import Job, csp
from csprop.study.table import (
    HOLD,
    QUICK,
    TASKS,
    Budget,
    Label,
    Rows,
    Table,
    decimal,
    exact,
    markdown,
    median_and_worst,
    reached,
    values,
)
from csprop.tasks import get

LENGTHS = (16, 17, 32, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576)
SPLITS, PRESETS = ("disjoint", "paper"), ("paper", "rotor")


def lengths(budget: Budget) -> tuple[int, ...]:
    """The lengths that are tested."""
    return tuple(length for length in LENGTHS if length <= budget.longest)


def lengths_of(task: str, budget: Budget) -> tuple[int, ...]:
    """The same for a task: where it has no strings of a length, the next one that it has."""
    has_length = get(task).has_length
    return tuple(next(filter(has_length, itertools.count(length))) for length in lengths(budget))


class Main(Table):
    name, title = "main", "Main table"

    def jobs(self, budget: Budget) -> dict[Label, list[Job]]:
        return {
            (task, preset, split): [
                self.job(budget, task, preset, split, seed) for seed in range(budget.seeds)
            ]
            for split in SPLITS
            for preset in PRESETS
            for task in TASKS
        }

    def job(self, budget: Budget, task: str, preset: str, split: str, seed: int) -> Job:
        """One run; with the disjoint split also tested by length, and locked where that is possible."""
        clean = split == "disjoint"
        changes = {"epochs": budget.epochs} if preset == "paper" or budget is QUICK else {}
        return csp(
            task,
            preset,
            seed,
            test_lengths=lengths_of(task, budget) if clean else (),
            every_input=True,
            lock=clean and preset == "rotor" and get(task).finite,
            split=split,
            hold=HOLD,
            **changes,
        )

    def text(self, rows: Rows, budget: Budget) -> str:
        headings = [
            "task",
            "preset",
            "split",
            "held-out accuracy",
            "F1",
            "seeds at 100%",
            "seeds right on all 65,536 inputs",
            "wrong of 65,536, worst seed",
            "epochs to 100%: median (most)",
            "the paper: Table 2, text, Figure 3",
        ]
        lines = []
        for (task, preset, split), seeds in rows.items():
            wrong, firsts = exact(seeds), reached(seeds)
            epochs = f"{statistics.median(firsts):g} ({max(firsts)})" if firsts else "–"
            lines.append(
                [
                    task, preset, split,
                    median_and_worst(values(seeds, "accuracy")),
                    median_and_worst(values(seeds, "f1"), decimal),
                    f"{len(firsts)} of {len(seeds)}",
                    f"{wrong.count(0)} of {len(seeds)}",
                    f"{max(wrong):,}",
                    epochs,
                    get(task).paper_epochs if preset == "paper" else "",
                ]
            )  # fmt: skip
        rotor = rows[TASKS[0], "rotor", "disjoint"][0]["job"]
        return (
            "The paper: accuracy 100% and F1 1.0 on parity, Mod-3 and parenthesis. Here "
            f"{budget.seeds} seeds; `paper` for up to {budget.epochs} epochs, `rotor` for up to "
            f"{rotor['recipe']['epochs']}, each stopped once the held-out accuracy had been 100% for "
            f"{HOLD} epochs. Accuracy and F1 are those of the median seed, and in brackets of the "
            "worst seed where it differs.\n\n" + markdown(headings, lines)
        )
