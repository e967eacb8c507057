"""The paper's main table: four tasks, as printed and as a rotor, with both ways to split the data."""

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

LENGTHS = (16, 17, 32, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576)
SPLITS, PRESETS = ("disjoint", "paper"), ("paper", "rotor")

SAID = {
    "parity": "~70, ~50, 30",
    "mod3": "~50, –, 80",
    "mod3-residue": "",
    "parenthesis": "~40, ~150, 100",
}
"""Epochs to 100% by Table 2, by the text beside it, and by Figure 3."""


def lengths(task: str, budget: Budget) -> tuple[int, ...]:
    """Those that the task has strings of."""
    tested = (length for length in LENGTHS if length <= budget.longest)
    return tuple(18 if task == "parenthesis" and length == 17 else length for length in tested)


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
        """With its accuracy by length, and locked, where the data are split cleanly."""
        clean = split == "disjoint"
        changes = {"epochs": budget.epochs} if preset == "paper" or budget is QUICK else {}
        return csp(
            task,
            preset,
            seed,
            test_lengths=lengths(task, budget) if clean else (),
            every_input=True,
            lock=clean and preset == "rotor" and task != "parenthesis",
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
        for (task, preset, split), found in rows.items():
            wrong, firsts = exact(found), reached(found)
            epochs = f"{statistics.median(firsts):g} ({max(firsts)})" if firsts else "–"
            lines.append(
                [
                    task, preset, split,
                    median_and_worst(values(found, "accuracy")),
                    median_and_worst(values(found, "f1"), decimal),
                    f"{len(firsts)} of {len(found)}",
                    f"{wrong.count(0)} of {len(found)}",
                    f"{max(wrong):,}",
                    epochs,
                    SAID[task] if preset == "paper" else "",
                ]
            )  # fmt: skip
        rotor = rows["parity", "rotor", "disjoint"][0]["job"]
        return (
            "The paper: accuracy 100% and F1 1.0 on parity, Mod-3 and parenthesis. Here "
            f"{budget.seeds} seeds; `paper` for up to {budget.epochs} epochs, `rotor` for up to "
            f"{rotor['recipe']['epochs']}, each ended once the held-out accuracy had been 100% for "
            f"{HOLD} epochs. Accuracy and F1: the median seed, and in brackets the worst, where it "
            "differs.\n\n" + markdown(headings, lines)
        )
