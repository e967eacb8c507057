"""The page of the study: its report, with charts that can be hovered and zoomed."""

import re
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt

from csprop.report.charts import EPOCH, LENGTH, LOG, PERCENT, Chart, Series, curve, jump
from csprop.report.page import Page, scrolling
from csprop_lab.study.grokking import Grokking
from csprop_lab.study.length import STYLES, Length, accuracies
from csprop_lab.study.publish import report, rows_of
from csprop_lab.study.results import Results
from csprop_lab.study.table import Budget, Rows, Table, metric

PAGE = "report.html"
"""Its file, beside REPORT.md."""


def page(results: Results, budget: Budget, tables: Sequence[Table]) -> str:
    """The report as HTML, with charts in place of its pictures."""
    title, text = report(results, budget, tables).split("\n\n", maxsplit=1)
    lead = "Every table and figure of the paper, with our results beside it."
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
    """A part of the report with its tables named after its heading."""
    heading = re.match(r"<h2>(.*?)</h2>", part)
    name = heading[1] if heading else "Table"
    return re.sub(r"<table>.*?</table>", lambda match: scrolling(name, match[0]), part, flags=re.DOTALL)


def _grokking(rows: Rows) -> list[Chart]:
    """Accuracy or F1, loss and gradient norm of every seed, for each task."""
    charts = []
    for (task,), seeds in rows.items():
        runs = [row for row in seeds if "curve" in row]
        measured = metric(task)
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
            titles = {"title": f"{task}: {words}", "link": f"grokking {task}"}
            charts.append(Chart(**titles, x=EPOCH | LOG, y=axis, series=series, marks=marks))
    return charts


def _length(rows: Rows) -> list[Chart]:
    """The accuracy of each model by length, for each task."""
    charts = []
    for task in dict.fromkeys(task for task, _ in rows):
        points = {
            model: [(float(x), y) for x, y in accuracies(rows[task, model], model).items()]
            for model in STYLES
            if (task, model) in rows
        }
        series = [
            Series(name=model, group=model, colour=colour, points=points[model])
            for colour, model in enumerate(STYLES)
            if model in points
        ]
        charts.append(Chart(title=task, link=None, x=LENGTH, y=PERCENT, series=series, marks=[]))
    return charts
