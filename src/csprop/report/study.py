"""The page of the study: its report, with figures that can be hovered and zoomed."""

from collections.abc import Sequence

from markdown_it import MarkdownIt

from csprop.report.charts import EPOCH, LOG, PERCENT, Chart, Mark, Series, curve
from csprop.report.page import Page
from csprop.study.grokking import Grokking, first, spike
from csprop.study.length import STYLES, Length, accuracies
from csprop.study.report import report, rows_of
from csprop.study.results import Results
from csprop.study.table import Budget, Rows, Table

PAGE = "report.html"


def page(results: Results, budget: Budget, tables: Sequence[Table]) -> str:
    """The report as HTML; where it has a picture, the page has charts."""
    title, text = report(results, budget, tables).split("\n\n", maxsplit=1)
    made = Page(
        title.removeprefix("# "), "Every table and figure of the paper, beside what this code got."
    )
    html = MarkdownIt("commonmark").enable("table").render(text)
    for table in tables:
        rows = rows_of(table, results, budget)
        if rows is None:
            continue
        picture = f'<p><img src="{table.name}.png" alt="{table.title}" /></p>'
        if isinstance(table, Grokking):
            html = html.replace(picture, made.figures(*_grokking(rows)))
        elif isinstance(table, Length):
            html = html.replace(picture, made.figures(*_length(rows)))
    wide = '<div class="wide" tabindex="0" role="region" aria-label="Table"><table>'
    html = html.replace("<table>", wide).replace("</table>", "</table></div>")
    made.sections.append(html)
    return made.html()


def _grokking(rows: Rows) -> list[Chart]:
    """For each task accuracy, loss and gradient norm of every seed."""
    charts = []
    for (task,), found in rows.items():
        runs = [row for row in found if "curve" in row]
        measured = "f1" if task == "parenthesis" else "accuracy"
        names = {measured: "F1" if measured == "f1" else "held-out accuracy"}
        names |= {"loss": "training loss", "grad_norm": "gradient norm"}
        for name, words in names.items():
            series, marks = [], []
            for row in runs:
                values, seed = row["curve"][name], row["job"]["seed"]
                at = {measured: first(row, 1.0), "grad_norm": spike(row)}.get(name)
                if at:
                    label = "largest gradient norm" if name == "grad_norm" else "first 100%"
                    shape = "spike" if name == "grad_norm" else "dot"
                    marks.append(Mark(label=label, shape=shape, colour=1, x=at, y=values[at - 1]))
                points = curve(values, [at] if at else [])
                series.append(Series(name=f"seed {seed}", group="a seed", colour=0, points=points))
            axis = {} if name == "f1" else PERCENT if name == "accuracy" else LOG
            charts.append(
                Chart(
                    title=f"{task}: {words}",
                    link=f"grokking {task}",
                    x=EPOCH | LOG,
                    y=axis,
                    series=series,
                    marks=marks,
                )
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
