"""The paper's main table: four tasks, as printed and by our presets, the data split in two ways."""

import statistics
from dataclasses import replace
from typing import Any

from csprop.tasks import get
from csprop_lab.released.config import upload
from csprop_lab.study.job import Job, csp, network
from csprop_lab.study.protocols import length_of
from csprop_lab.study.table import (
    HOLD,
    QUICK,
    TASKS,
    Budget,
    Label,
    Rows,
    Table,
    decimal,
    exact,
    median_and_worst,
    proven,
    reached,
    values,
)
from csprop_lab.study.texts import markdown, words

LENGTHS = (16, 17, 32, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576)
SPLITS, PRESETS = ("disjoint", "paper"), ("paper", "released", "rotor", "counter")


def lengths(budget: Budget) -> tuple[int, ...]:
    """The lengths that are tested."""
    return tuple(length for length in LENGTHS if length <= budget.longest)


def lengths_of(task: str, budget: Budget) -> tuple[int, ...]:
    """The same for a task: where it has no strings of a length, the next one that it has."""
    return tuple(length_of(task, length) for length in lengths(budget))


def seeds_of(preset: str, budget: Budget) -> int:
    """Return the number of seeds of a preset; the authors' model takes long."""
    return budget.few_seeds if preset == "released" else budget.seeds


class Main(Table):
    name, title = "main", "Main table"

    def jobs(self, budget: Budget) -> dict[Label, list[Job]]:
        return {
            (task, preset, split): [
                self.job(budget, task, preset, split, seed) for seed in range(seeds_of(preset, budget))
            ]
            for split in SPLITS
            for preset in PRESETS
            for task in TASKS
            if preset in ("paper", "rotor", get(task).preset)
            or (preset, split) == ("released", "disjoint")
        }

    def job(self, budget: Budget, task: str, preset: str, split: str, seed: int) -> Job:
        """One run; with the disjoint split tested by length, and locked if the preset can be."""
        clean, printed = split == "disjoint", preset in ("paper", "released")
        changes: dict[str, Any] = {"split": split}
        changes |= {"epochs": budget.epochs} if printed or budget is QUICK else {}
        changes |= {"hold": HOLD} if printed else {}
        measured: dict[str, Any] = {"test_lengths": lengths_of(task, budget) if clean else ()}
        measured |= {"every_input": True, "lock": clean and preset in (get(task).preset, "released")}
        if preset == "released":
            config, recipe = upload(preset, get(task))
            return network(task, config, replace(recipe, **changes), seed, **measured)
        return csp(task, preset, seed, **changes, **measured)

    def text(self, rows: Rows, budget: Budget) -> str:
        headings = [
            "task", "preset", "split", "held-out accuracy", "F1", "seeds at 100%",
            "seeds right on all 65,536 inputs", "wrong of 65,536, worst seed",
            "epochs to 100%: median (most)", "locked: proven at every length",
            "the paper: Table 2, text, Figure 3",
        ]  # fmt: skip
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
                    proven(seeds) if seeds[0]["job"]["lock"] else "",
                    get(task).paper_epochs if preset == "paper" else "",
                ]
            )  # fmt: skip
        recipes = {preset: seeds[0]["job"]["recipe"] for (_, preset, _), seeds in rows.items()}
        most = (
            f"`{preset}` {recipe['epochs']} ({recipe['hold']})" for preset, recipe in recipes.items()
        )
        return words(
            "main", seeds=budget.seeds, few=budget.few_seeds, most=", ".join(most),
            table=markdown(headings, lines),
        )  # fmt: skip
