"""The page of the study: its report, with figures that can be hovered and zoomed."""

import re
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt

from csprop.report.charts import EPOCH, LOG, PERCENT, Chart, Series, curve, jump
from csprop.report.page import Page, scrolling
from csprop.study.grokking import Grokking
from csprop.study.length import STYLES, Length, accuracies
from csprop.study.publish import report, rows_of
from csprop.study.results import Results
from csprop.study.table import Budget, Rows, Table

PAGE = "report.html"


def page(results: Results, budget: Budget, tables: Sequence[Table]) -> str:
    """The report as HTML; where it has a picture, the page has charts."""
    title, text = report(results, budget, tables).split("\n\n", maxsplit=1)
    lead = "Every table and figure of the paper, beside what this code got."
    made = Page(title.removeprefix("# "), lead)
    html = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    for table in tables:
        rows = rows_of(table, results, budget)
        if rows is None:
            continue
        picture = f'<p><img src="{table.name}.png" alt="{table.title}" /></p>'
        if isinstance(table, Grokking):
            html = html.replace(picture, made.figures(*_grokking(rows)))
        elif isinstance(table, Length):
            html = html.replace(picture, made.figures(*_length(rows)))
    made.sections += map(_with_tables, re.split(r"(?=<h2>)", html))
    return made.html()


def _with_tables(part: str) -> str:
    """A part of the report whose tables are called by its heading."""
    heading = re.match(r"<h2>(.*?)</h2>", part)
    name = heading[1] if heading else "Table"
    return re.sub(r"<table>.*?</table>", lambda found: scrolling(name, found[0]), part, flags=re.DOTALL)


def _grokking(rows: Rows) -> list[Chart]:
    """For each task accuracy, loss and gradient norm of every seed."""
    charts = []
    for (task,), found in rows.items():
        runs = [row for row in found if "curve" in row]
        measured = "f1" if task == "parenthesis" else "accuracy"
        names: dict[str, tuple[str, dict[str, Any]]] = {
            measured: ("F1", {}) if measured == "f1" else ("held-out accuracy", PERCENT),
            "loss": ("training loss", LOG),
            "grad_norm": ("gradient norm", LOG),
        }
        for name, (words, axis) in names.items():
            series, marks = [], []
            for row in runs:
                here = jump(row["curve"], measured, colour=1)[name]
                points = curve(row["curve"][name], [int(mark["x"]) for mark in here])
                marks += here
                called = f"seed {row['job']['seed']}"
                series.append(Series(name=called, group="a seed", colour=0, points=points))
            x, link = EPOCH | LOG, f"grokking {task}"
            charts.append(
                Chart(title=f"{task}: {words}", link=link, x=x, y=axis, series=series, marks=marks)
            )
    return charts


def _length(rows: Rows) -> list[Chart]:
    """For each task the accuracy of four models by length."""
    charts = []
    for task in dict.fromkeys(task for task, _ in rows):
        series = [
            Series(
                name=model,
                group=model,
                colour=colour,
                points=list(accuracies(rows[task, model], model).items()),
            )
            for colour, model in enumerate(STYLES)
            if (task, model) in rows
        ]
        x = {"label": "length"} | LOG
        charts.append(Chart(title=task, link=None, x=x, y=PERCENT, series=series, marks=[]))
    return charts
