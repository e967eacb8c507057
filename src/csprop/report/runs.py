"""The page of some runs, and its charts: training by epoch, and accuracy by length."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from csprop.report import machines, sections
from csprop.report.charts import EPOCH, LENGTH, LOG, PERCENT, Chart, Mark, Series, curve, jump
from csprop.report.page import Page
from csprop.report.read import PageRun, Say, measure, read

CURVES: dict[str, tuple[str, dict[str, Any]]] = {
    "accuracy": ("Held-out accuracy", PERCENT),
    "loss": ("Training loss", LOG),
    "grad_norm": ("Gradient norm", LOG),
}
"""Title and axis of each curve."""


def page(paths: Sequence[Path], measured: bool = True, say: Say = lambda line: None) -> str:
    """Return an HTML page with the explorer, curves, tables and certificates of some runs.

    Args:
        paths: run directories, or folders of them.
        measured: measure the accuracy at lengths beyond the trained one.
        say: is called with each line about the progress or a run that is left out.

    Raises:
        InputError: a run cannot be read, or its certificate does not hold.
    """
    runs = read(paths, say)
    html = Page(sections.title(runs), sections.lead(runs), sections.list_models(runs))
    sections.add_explorer(html, runs)
    if sources := list(filter(None, map(machines.describe_source, runs))):
        html.add("Where the machine comes from", *sources)
    html.add("Runs", sections.list_runs(runs))
    training = list(filter(None, map(machines.explain_no_curves, runs)))
    if trained := [each for each in runs if each.run.metrics]:
        training.append(html.figures(*training_charts(trained)))
    if training:
        html.add("Training", *training)
    if measured:
        for each in runs:
            measure(each, say)
    if any(each.accuracies for each in runs):
        html.add("Accuracy by length", sections.length_note(runs), html.figures(*length_charts(runs)))
    if certificates := sections.list_certificates(runs):
        html.add("Certificates", *certificates)
    html.add("Configuration and provenance", *map(sections.provenance, runs))
    return html.html()


def training_charts(runs: Sequence[PageRun]) -> list[Chart]:
    """Draw accuracy, loss and gradient norm by epoch, with the jump and the spike marked."""
    charts = []
    for name, (title, y) in CURVES.items():
        series: list[Series] = []
        marks: list[Mark] = []
        for each in runs:
            own = jump(each.row["curve"], "accuracy", each.colour)[name]
            points = curve(each.row["curve"][name], [int(mark["x"]) for mark in own])
            marks += own
            series.append(Series(name=each.name, group=each.group, colour=each.colour, points=points))
        charts.append(Chart(title=title, link="training", x=EPOCH, y=y, series=series, marks=marks))
    return charts


def length_charts(runs: Sequence[PageRun]) -> list[Chart]:
    """Draw accuracy by length, in one chart for each task."""
    series: dict[str, list[Series]] = {}
    for each in runs:
        for kind, accuracies in each.accuracies.items():
            line = Series(
                name=f"{each.name}, {kind}",
                group=f"{each.kind}, {kind}",
                colour=each.colours[kind],
                points=list(accuracies.items()),
            )
            series.setdefault(each.run.task.name, []).append(line)
    return [
        Chart(title=task, link=None, x=LENGTH, y=PERCENT, series=lines, marks=[])
        for task, lines in series.items()
    ]
