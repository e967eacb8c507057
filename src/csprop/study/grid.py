"""A table of variants down and tasks across, trained with a smaller budget than the main one."""

import statistics
from collections.abc import Sequence
from typing import Any, ClassVar

from csprop.study.job import Job, csp
from csprop.study.measure import Row
from csprop.study.table import (
    HOLD,
    PAPER_TASKS,
    Budget,
    Label,
    Rows,
    Table,
    decimal,
    markdown,
    median_and_worst,
    reached,
    values,
)

Variants = dict[str, dict[str, Any]]
"""By name, the options that each changes."""


class Grid(Table):
    """Variants of preset `paper`, each by the options that it changes."""

    variants: ClassVar[Variants]
    said: ClassVar[dict[Label, str]] = {}
    """What the paper has in a place."""

    def jobs(self, budget: Budget) -> dict[Label, list[Job]]:
        return {
            (variant, task): [
                csp(task, "paper", seed, **self.options(budget, changes))
                for seed in range(budget.few_seeds)
            ]
            for variant, changes in self.variants.items()
            for task in PAPER_TASKS
        }

    def options(self, budget: Budget, changes: dict[str, Any]) -> dict[str, Any]:
        return {
            "split": "disjoint",
            "samples": budget.few_samples,
            "epochs": budget.few_epochs,
            "hold": HOLD,
            **changes,
        }

    def grid(self, rows: Rows) -> str:
        headings = ["variant", "parameters"]
        for task in ("parity", "mod3", "parenthesis, F1"):
            headings += [task, "the paper"] if self.said else [task]
        lines = []
        for variant in self.variants:
            parameters = values(rows[variant, "parity"], "parameters")
            line = [variant, f"{max(parameters):,.0f}"]
            for task in PAPER_TASKS:
                said = [self.said.get((variant, task), "")] if self.said else []
                line += [cell(rows[variant, task]), *said]
            lines.append(line)
        return markdown(headings, lines)

    def budget_text(self, budget: Budget) -> str:
        return (
            f"{budget.few_seeds} seeds, up to {budget.few_epochs} epochs (the paper: 300), ended once "
            f"the held-out accuracy had been 100% for {HOLD} epochs; disjoint split. {CELL}"
        )


CELL = (
    "A cell has the held-out accuracy (of parenthesis F1), the median of the seeds and in brackets the "
    "worst where it differs, then how many seeds reached 100% and the median epoch at which they did."
)


def cell(rows: Sequence[Row]) -> str:
    task, firsts = rows[0]["job"]["task"], reached(rows)
    if task == "parenthesis":
        score = median_and_worst(values(rows, "f1"), decimal)
    else:
        score = median_and_worst(values(rows, "accuracy"))
    at = f", epoch {statistics.median(firsts):g}" if firsts else ""
    return f"{score}; {len(firsts)} of {len(rows)}{at}"
