"""The charts of some runs: training by epoch, and accuracy by length."""

from collections.abc import Sequence
from typing import Any

from csprop.report.charts import EPOCH, LENGTH, LOG, PERCENT, Chart, Mark, Series, curve, jump
from csprop.report.read import Shown

DRAWN: dict[str, tuple[str, dict[str, Any]]] = {
    "accuracy": ("Held-out accuracy", PERCENT),
    "loss": ("Training loss", LOG),
    "grad_norm": ("Gradient norm", LOG),
}
"""Title and axis of each curve."""


def training(shown: Sequence[Shown]) -> list[Chart]:
    """Held-out accuracy, loss and gradient norm by epoch, with the jump and the spike marked."""
    charts = []
    for drawn, (title, y) in DRAWN.items():
        series: list[Series] = []
        marks: list[Mark] = []
        for each in shown:
            curves = each.row["curve"]
            here = jump(curves, "accuracy", each.colour)[drawn]
            points = curve(curves[drawn], [int(mark["x"]) for mark in here])
            marks += here
            series.append(Series(name=each.name, group=each.group, colour=each.colour, points=points))
        charts.append(Chart(title=title, link="training", x=EPOCH, y=y, series=series, marks=marks))
    return charts


def by_length(shown: Sequence[Shown]) -> list[Chart]:
    """Accuracy by length, in one chart for each task."""
    charts = []
    for task in dict.fromkeys(each.run.task.name for each in shown if each.accuracies):
        series: list[Series] = []
        for each in shown:
            if each.run.task.name != task:
                continue
            for kind, accuracies in each.accuracies.items():
                series.append(
                    Series(
                        name=f"{each.name}, {kind}",
                        group=f"{each.kind}, {kind}",
                        colour=each.colours[kind],
                        points=list(accuracies.items()),
                    )
                )
        charts.append(Chart(title=task, link=None, x=LENGTH, y=PERCENT, series=series, marks=[]))
    return charts
