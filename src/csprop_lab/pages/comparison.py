"""The text and the page of a comparison."""

import statistics
from collections.abc import Sequence
from html import escape

from markdown_it import MarkdownIt

from csprop.report.charts import LENGTH, PERCENT, Chart, Series
from csprop.report.page import Page, folded, scrolling
from csprop_lab.study.compare import FAR
from csprop_lab.study.compared import Comparison, at_longest, by_length, cell_text, scaled
from csprop_lab.study.measure import SAMPLING, Row
from csprop_lab.study.protocols import CSPROP, Protocol
from csprop_lab.study.published import show_published
from csprop_lab.study.texts import words

HEAT_MAP, CURVES = "heat-map.png", "lengths.png"
LINES = 8
"""Lines of a chart: more could not be told apart."""


def text(comparison: Comparison) -> str:
    """All of it in Markdown, for a file beside the rows."""
    parts = ["# Layers side by side", _how(comparison), "## All together", comparison.summary()]
    parts += [f"![Models and tasks]({HEAT_MAP})"]
    for each in comparison.protocols:
        parts += [
            f"## {each.title}",
            _protocol(each, comparison.effort.longest),
            comparison.table(each.name),
        ]
        if printed := show_published(each, comparison.models):
            parts += ["Published numbers of these layers, or close relatives, on these tasks:", printed]
    return "\n\n".join([*parts, "## By length", f"![Accuracy by length]({CURVES})"]) + "\n"


def _how(comparison: Comparison) -> str:
    effort = comparison.effort
    rates, seeds = " and ".join(f"{rate:g}" for rate in effort.rates), "one seed"
    if effort.seeds > 1:
        seeds = f"{effort.seeds} seeds"
    if comparison.seeds < effort.seeds:
        seeds = f"{comparison.seeds} of {effort.seeds} seeds so far"
    chosen = f"the learning rate is {rates}"
    if len(effort.rates) > 1:
        chosen = (
            f"the learning rates {rates} are tried with the first seed, and the one with the best "
            "held-out accuracy (or the least training loss, where two are as accurate) is taken for all"
        )
    return words(
        "compare", mark="" if effort.tasks is None else words("compare-quick") + " ",
        steps=effort.steps, rates=chosen, seeds=seeds, most=SAMPLING.most,
        beyond=SAMPLING.tokens // SAMPLING.most,
        **{name: getattr(effort, name) for name in ("depth", "width", "samples", "batch_size")},
    )  # fmt: skip


def _protocol(protocol: Protocol, longest: int) -> str:
    if protocol.rows:
        wrong = f", {protocol.wrong:.0%} of the labels wrong" if protocol.wrong else ""
        return f"{protocol.source}. {protocol.rows:,} rows{wrong}; tested on fresh ones, longer, too."
    lengths = [length for length in protocol.tested if length <= longest]
    tested = ", ".join(f"{length:,}" for length in lengths)
    parts = [f"{protocol.source}. Trained at up to {protocol.length} tokens, tested at {tested}."]
    if protocol.hold_pairs:
        parts.append(words("compare-pairs"))
    if protocol.follow:
        far = max(each for each in lengths if each <= FAR)
        parts.append(words("compare-follow", follow=protocol.follow, far=far))
    if protocol.others:
        parts.append(words("compare-others", others=" and ".join(protocol.others)))
    return " ".join(parts)


def page(comparison: Comparison) -> str:
    """The page: what `text` says, heat maps as tables, and charts by length."""
    lead = "Layers of the field on state tracking, trained alike, beside csprop's own model."
    made = Page("Layers side by side", lead)
    show = MarkdownIt("commonmark", {"html": False}).enable("table").render
    made.add("How they are compared", show(_how(comparison)))
    made.add("All together", scrolling("All models", show(comparison.summary())))
    for each in comparison.protocols:
        content = [
            f"<p>{escape(_protocol(each, comparison.effort.longest))}</p>",
            _heat(comparison, each.name),
        ]
        if each.tested:
            content.append(made.figures(*_charts(comparison, each.name)))
        if printed := show_published(each, comparison.models):
            content.append(folded("Published numbers", scrolling("Published numbers", show(printed))))
        made.add(each.title, *content)
    return made.html()


def _heat(comparison: Comparison, protocol: str) -> str:
    """A table with a coloured cell for each model and task."""
    tasks = comparison.tasks(protocol)
    head = "".join(f'<th scope="col">{escape(task)}</th>' for task in tasks)
    body = ""
    for model in comparison.models:
        body += f'<tr><th scope="row">{escape(model)}</th>'
        for task in tasks:
            rows = comparison[protocol, task, model]
            held = scaled(rows)
            if held is None:
                body += "<td>–</td>"
                continue
            body += f'<td style="--held: {held:.2f}">{cell_text(rows)}</td>'
        body += "</tr>"
    table = f"<thead><tr><th scope=col>model</th>{head}</tr></thead><tbody>{body}</tbody>"
    caption = (
        "<caption>Accuracy at the trained length, and at the longest. The darker a cell, the further "
        "is the latter from chance.</caption>"
    )
    return scrolling("Models and tasks", f'<table class="heat">{caption}{table}</table>')


def _median(rows: Sequence[Row]) -> float:
    return statistics.median(map(at_longest, rows))


def _charts(comparison: Comparison, protocol: str) -> list[Chart]:
    """The accuracy by length on each task, of those that did best at the longest."""
    charts = []
    for task in comparison.tasks(protocol):
        found = {model: comparison[protocol, task, model] for model in comparison.models}
        ranked = sorted((model for model in found if found[model]), key=lambda m: -_median(found[m]))
        best = [*(each for each in ranked if each == CSPROP), *(m for m in ranked if m != CSPROP)]
        series = [
            Series(name=model, group=model, colour=colour, points=list(by_length(found[model]).items()))
            for colour, model in enumerate(best[:LINES])
        ]
        charts.append(Chart(title=task, link=None, x=LENGTH, y=PERCENT, series=series, marks=[]))
    return charts
