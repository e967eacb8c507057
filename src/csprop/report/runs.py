"""The page of some runs, and its charts: training by epoch, and accuracy by length."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from csprop.report import sections
from csprop.report.charts import EPOCH, LENGTH, LOG, PERCENT, Chart, Series, curve, jump
from csprop.report.explorer import add_explorer
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

    If `measured`, it has accuracies at lengths beyond the trained one. `say` is called with lines
    about the progress.

    Raises:
        InputError: a run cannot be read, or its certificate does not hold.
    """
    runs = read(paths, say)
    html = Page(sections.title(runs), sections.lead(runs), sections.list_models(runs))
    add_explorer(html, runs)
    if sources := list(filter(None, map(sections.describe_source, runs))):
        html.add("Where the machine comes from", *sources)
    html.add("Runs", sections.list_runs(runs))
    if trained := [each for each in runs if each.run.metrics]:
        html.add("Training", html.figures(*training_charts(trained)))
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
    charts = [
        Chart(title=title, link="training", x=EPOCH, y=y, series=[], marks=[])
        for title, y in CURVES.values()
    ]
    for each in runs:
        curves, colour = each.row["curve"], each.colours[each.models[-1]]
        marks = jump(curves, "accuracy", colour)
        for name, chart in zip(CURVES, charts, strict=True):
            points = curve(curves[name], [int(mark["x"]) for mark in marks[name]])
            line = Series(name=each.name, group=each.group, colour=colour, points=points)
            chart["series"].append(line)
            chart["marks"] += marks[name]
    return charts


def length_charts(runs: Sequence[PageRun]) -> list[Chart]:
    """Draw accuracy by length, in one chart for each task."""
    charts: dict[str, Chart] = {}
    for each in runs:
        task = each.run.task.name
        empty = Chart(title=task, link=None, x=LENGTH, y=PERCENT, series=[], marks=[])
        for kind, accuracies in each.accuracies.items():
            name, group, colour = f"{each.name}, {kind}", f"{each.kind}, {kind}", each.colours[kind]
            line = Series(name=name, group=group, colour=colour, points=list(accuracies.items()))
            charts.setdefault(task, empty)["series"].append(line)
    return list(charts.values())
