"""One HTML file with everything in it: style, script, data."""

import json
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from csprop import __version__
from csprop.report.charts import Chart

ASSETS = files("csprop.report") / "assets"
MODEL = ("planes.js", "cells.js", "csp.js")
"""The forward pass, which needs no browser."""
CHARTS = ("scales.js", "plot.js", "charts.js")
EXPLORER = (
    "tally.js", "arrows.js", "painting.js", "solid.js", "machine.js", "places.js", "counters.js",
    "history.js", "panel.js", "strip.js", "explorer.js",
)  # fmt: skip
SCRIPTS = ("dom.js", *MODEL, *CHARTS, *EXPLORER, "page.js")
"""In the order in which each needs those before it."""


def asset(name: str) -> str:
    """The text of a file in assets/."""
    return (ASSETS / name).read_text(encoding="utf-8")


@dataclass
class Page:
    """A page that is being made: sections of HTML, and the data that the script needs for them."""

    title: str
    lead: str
    head: str = ""
    """HTML below the lead."""
    sections: list[str] = field(default_factory=list)
    charts: dict[str, Chart] = field(default_factory=dict)
    models: list[dict[str, Any]] = field(default_factory=list)
    tasks: list[dict[str, Any]] = field(default_factory=list)
    opening: dict[str, Any] | None = None
    """What the explorer shows first."""

    def add(self, heading: str, *content: str) -> None:
        """Add a section. The heading is text, the content is HTML."""
        self.sections.append(f"<h2>{escape(heading)}</h2>\n" + "\n".join(content))

    def figures(self, *charts: Chart) -> str:
        """The HTML of places in which the script draws some charts."""
        made = []
        for chart in charts:
            name = f"chart-{len(self.charts)}"
            self.charts[name] = chart
            title = escape(chart["title"])
            made.append(f'<figure data-chart="{name}"><h3>{title}</h3></figure>')
        return f'<div class="charts">{"".join(made)}</div>'

    def html(self) -> str:
        """The whole file."""
        data = {"charts": self.charts, "models": self.models, "tasks": self.tasks}
        data |= {"opening": self.opening}
        # Within a script element "<" could end it; as an escape it is the same JSON.
        packed = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
        return Template(asset("page.html")).substitute(
            title=escape(self.title),
            lead=escape(self.lead),
            head=self.head,
            style=asset("page.css"),
            body="\n".join(self.sections),
            version=__version__,
            data=packed,
            script="\n".join(map(asset, SCRIPTS)),
        )


def table(name: str, headings: list[str], rows: list[list[str]], heads: list[str] | None = None) -> str:
    """A table of text that fits any window; the first cell of a row is its heading.

    Args:
        name: what the table is called by a screen reader.
        heads: the first cell of each row as HTML, if it is more than text.
    """
    head = "".join(f'<th scope="col">{escape(each)}</th>' for each in headings)
    body = "".join(
        f'<tr><th scope="row">{first}</th>'
        + "".join(
            f'<td data-label="{escape(heading)}">{escape(each)}</td>'
            for heading, each in zip(headings[1:], row[1:], strict=True)
        )
        + "</tr>"
        for first, row in zip(heads or [escape(row[0]) for row in rows], rows, strict=True)
    )
    kind = "cards" if len(headings) > 3 else "few"
    return (
        f'<div class="fit"><table class="{kind}" aria-label="{escape(name)}">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def scrolling(name: str, content: str) -> str:
    """HTML that is scrolled where it is wider than the window, with a name for screen readers."""
    return f'<div class="wide" tabindex="0" role="region" aria-label="{escape(name)}">{content}</div>'


def folded(summary: str, content: str) -> str:
    """HTML that is folded away until the reader opens it."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def facts(pairs: list[tuple[str, str]]) -> str:
    """A list of names and their values."""
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs)
    return f"<dl>{items}</dl>"


def swatch(colour: int) -> str:
    """The key of a model: a piece of its line in the charts."""
    return (
        '<svg class="swatch" width="26" height="10" aria-hidden="true">'
        f'<line class="line c{colour}" x1="0" x2="26" y1="5" y2="5"/></svg>'
    )


def badge(words: str, kind: str) -> str:
    """What is proven of a model, to stand beside its name."""
    return f'<span class="badge {kind}">{escape(words)}</span>'
