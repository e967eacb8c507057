"""The page of some runs."""

from collections.abc import Sequence
from pathlib import Path

from csprop.report import curves, machines, sections
from csprop.report.page import Page
from csprop.report.read import Say, measure, read


def page(paths: Sequence[Path], measured: bool = True, say: Say = lambda line: None) -> str:
    """An HTML page with the explorer, curves, tables and certificates of some runs.

    Args:
        paths: run directories, or folders of them.
        measured: whether to measure the accuracy at lengths beyond the trained one.
        say: is told of the progress, and of runs that are left out.

    Raises:
        InputError: a run cannot be read, or its certificate does not hold.
    """
    shown = read(paths, say)
    made = Page(sections.title(shown), sections.lead(shown), sections.models(shown))
    sections.explorer(made, shown)
    if sources := list(filter(None, map(machines.source, shown))):
        made.add("Where the machine comes from", *sources)
    made.add("Runs", sections.runs(shown))
    training = list(filter(None, map(machines.untrained, shown)))
    if begun := [each for each in shown if each.run.metrics]:
        training.append(made.figures(*curves.training(begun)))
    if training:
        made.add("Training", *training)
    if measured:
        for each in shown:
            measure(each, say)
    if any(each.accuracies for each in shown):
        figures = made.figures(*curves.by_length(shown))
        made.add("Accuracy by length", sections.length_note(shown), figures)
    if certificates := sections.certificates(shown):
        made.add("Certificates", *certificates)
    made.add("Configuration and provenance", *map(sections.provenance, shown))
    return made.html()
