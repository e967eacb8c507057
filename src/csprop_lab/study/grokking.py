"""The paper's Figures 3 and 4: accuracy, loss and gradient norm of every seed by epoch."""

import statistics
from collections.abc import Sequence
from typing import Any

from csprop.report.charts import ALMOST, first, spike
from csprop.tasks import get
from csprop_lab.study.job import Job
from csprop_lab.study.main import Main
from csprop_lab.study.measure import Row
from csprop_lab.study.table import TASKS, Budget, Figured, Label, Rows, metric
from csprop_lab.study.texts import markdown, words

NEAR = 2
"""Epochs within which a spike of the gradient counts as beside the jump."""


class Grokking(Figured):
    """Made of the main table's rows with the paper's own split; nothing more is trained for it."""

    name, title = "grokking", "Grokking"

    def jobs(self, budget: Budget) -> dict[Label, list[Job]]:
        every = Main().jobs(budget)
        return {(task,): every[task, "paper", "paper"] for task in TASKS}

    def text(self, rows: Rows, budget: Budget) -> str:
        headings = [
            "task", "epochs from 90% to 100%: mean ± std", "seeds that reached 100%",
            "the paper, 10 seeds", "first epoch at 90%: range",
            "largest gradient norm within 2 epochs of it",
        ]  # fmt: skip
        lines = []
        for (task,), seeds in rows.items():
            gaps = [gap for row in seeds if (gap := gap_of(row)) is not None]
            starts = [start for row in seeds if (start := first(row, ALMOST)) is not None]
            beside, expected = spikes(seeds)
            lines.append([
                task, mean_and_std(gaps), f"{len(gaps)} of {len(seeds)}", get(task).paper_gap,
                f"{min(starts)} to {max(starts)}" if starts else "–",
                f"{beside} of {len(starts)} (by chance {expected:.1f})",
            ])  # fmt: skip
        table = markdown(headings, lines)
        return words("grokking", seeds=budget.seeds, epochs=budget.epochs, table=table)

    def figure(self, rows: Rows) -> Any:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.2 * len(rows), 6.6), layout="constrained")
        axes = figure.subplots(3, len(rows), sharex="col", squeeze=False)
        for column, ((task,), seeds) in enumerate(rows.items()):
            measured = metric(task)
            for row in seeds:
                if "curve" not in row:
                    continue
                epochs = range(1, len(row["curve"]["loss"]) + 1)
                for place, name in enumerate((measured, "loss", "grad_norm")):
                    axes[place, column].plot(
                        epochs, row["curve"][name], color="#0072B2", lw=0.8, alpha=0.5
                    )
                if at := first(row, 1.0):
                    axes[0, column].plot(at, row["curve"][measured][at - 1], "ko", ms=3)
            axes[0, column].set_title(task)
            axes[0, column].set_xscale("log")
            axes[1, column].set_yscale("log")
            axes[2, column].set_yscale("log")
            axes[2, column].set_xlabel("epoch")
            axes[0, column].set_ylim(-0.03, 1.03)
            axes[0, column].set_ylabel("F1" if measured == "f1" else measured)
        axes[1, 0].set_ylabel("training loss")
        axes[2, 0].set_ylabel("gradient norm")
        return figure


def gap_of(row: Row) -> int | None:
    """Epochs from 90% to 100%; None where 100% was never reached."""
    end, start = first(row, 1.0), first(row, ALMOST)
    return None if end is None or start is None else end - start


def spikes(rows: Sequence[Row]) -> tuple[int, float]:
    """Return the number of runs with their largest gradient norm near the first 90%, and by chance."""
    beside, expected = 0, 0.0
    for row in rows:
        if (at := first(row, ALMOST)) is not None:
            epochs = len(row["curve"]["accuracy"])
            near = range(max(1, at - NEAR), min(epochs, at + NEAR) + 1)
            beside += spike(row) in near
            expected += len(near) / epochs
    return beside, expected


def mean_and_std(numbers: list[int]) -> str:
    """Return text such as "3.0 ± 1.4"."""
    if not numbers:
        return "–"
    spread = f" ± {statistics.stdev(numbers):.1f}" if len(numbers) > 1 else ""
    return f"{statistics.mean(numbers):.1f}{spread}"
