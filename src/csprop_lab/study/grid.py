"""A table of variants down and tasks across, trained with a smaller budget than the main one."""

import statistics
from collections.abc import Sequence
from typing import Any, ClassVar

from csprop_lab.study.job import Job, csp
from csprop_lab.study.measure import Row
from csprop_lab.study.table import (
    HOLD,
    PAPER_TASKS,
    Budget,
    Label,
    Rows,
    Table,
    column,
    markdown,
    reached,
    score,
    values,
)

Variants = dict[str, dict[str, Any]]
"""By name, the options that each changes."""
Quotes = dict[str, tuple[str, ...]]
"""By variant, what the paper reports of each of its tasks, in the order of PAPER_TASKS."""


class Grid(Table):
    """Variants of preset `paper`, each given by the options that it changes."""

    variants: ClassVar[Variants]
    quotes: ClassVar[Quotes] = {}

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
        """A variant's options on top of those that all variants share."""
        return {
            "split": "disjoint",
            "samples": budget.few_samples,
            "epochs": budget.few_epochs,
            "hold": HOLD,
            **changes,
        }

    def grid(self, rows: Rows) -> str:
        """The table itself, in Markdown; with quotes, each task has a column for the paper's."""
        headings = ["variant", "parameters"]
        for task in PAPER_TASKS:
            headings += [column(task), "the paper"] if self.quotes else [column(task)]
        lines = []
        for variant in self.variants:
            parameters = values(rows[variant, PAPER_TASKS[0]], "parameters")
            line = [variant, f"{max(parameters):,.0f}"]
            quotes = self.quotes.get(variant, ("",) * len(PAPER_TASKS))
            for task, quote in zip(PAPER_TASKS, quotes, strict=True):
                line += (
                    [cell(rows[variant, task]), quote] if self.quotes else [cell(rows[variant, task])]
                )
            lines.append(line)
        return markdown(headings, lines)

    def budget_text(self, budget: Budget) -> str:
        """How the variants were trained, and how to read a cell."""
        return (
            f"{budget.few_seeds} seeds, up to {budget.few_epochs} epochs (the paper: 300), stopped "
            f"once the held-out accuracy had been 100% for {HOLD} epochs; disjoint split. {CELL}"
        )


CELL = (
    "Each cell gives the held-out accuracy (F1 for parenthesis): the median over the seeds, and in "
    "brackets the worst seed where it differs; then how many seeds reached 100%, and their median "
    "epoch."
)


def cell(rows: Sequence[Row]) -> str:
    """How the seeds did on a task, as `CELL` explains it."""
    firsts = reached(rows)
    at = f", epoch {statistics.median(firsts):g}" if firsts else ""
    return f"{score(rows)}; {len(firsts)} of {len(rows)}{at}"
