"""One HTML file with everything in it: style, script, data."""

import json
import re
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
SCRIPTS = (
    "dom.js", *MODEL, "scales.js", "plot.js", "charts.js", "tally.js", "arrows.js", "machine.js",
    "places.js", "counters.js", "history.js", "panel.js", "strip.js", "explorer.js", "page.js",
)  # fmt: skip
"""Each script needs some of those before it."""


def asset(name: str) -> str:
    """Read a file of assets/."""
    return (ASSETS / name).read_text(encoding="utf-8")


@dataclass
class Page:
    """The parts of a page: sections of HTML, and the data that the script needs for them.

    `head` is HTML below the lead, `opening` the first view of the explorer.
    """

    title: str
    lead: str
    head: str = ""
    sections: list[str] = field(default_factory=list)
    charts: dict[str, Chart] = field(default_factory=dict)
    models: list[dict[str, Any]] = field(default_factory=list)
    tasks: list[dict[str, Any]] = field(default_factory=list)
    opening: dict[str, Any] | None = None

    def add(self, heading: str, *content: str) -> None:
        """Add a section. The heading is text, the content is HTML."""
        self.sections.append(f"<h2>{escape(heading)}</h2>\n" + "\n".join(content))

    def figures(self, *charts: Chart) -> str:
        """Return figures in which the script draws some charts."""
        text = ""
        for chart in charts:
            name, title = f"chart-{len(self.charts)}", escape(chart["title"])
            self.charts[name] = chart
            text += f'<figure data-chart="{name}"><h3>{title}</h3></figure>'
        return f'<div class="charts">{text}</div>'

    def html(self) -> str:
        """Return the whole file."""
        data = {name: getattr(self, name) for name in ("charts", "models", "tasks", "opening")}
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
    """Return a table of text that fits any window, with a name for screen readers.

    The first cell of a row is its heading; `heads` has them as HTML if they are more than text.
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


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph, with words in backticks as code."""
    content = re.sub("`([^`]*)`", r"<code>\1</code>", escape(text))
    return f'<p class="{kind}">{content}</p>' if kind else f"<p>{content}</p>"


def folded(summary: str, content: str) -> str:
    """Fold HTML away until the reader opens it."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def facts(pairs: list[tuple[str, str]]) -> str:
    """Return a list of names and their values."""
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs)
    return f"<dl>{items}</dl>"


def swatch(colour: int) -> str:
    """Return the key of a model: a piece of its line in the charts."""
    return (
        '<svg class="swatch" width="26" height="10" aria-hidden="true">'
        f'<line class="line c{colour}" x1="0" x2="26" y1="5" y2="5"/></svg>'
    )


def badge(words: str, kind: str) -> str:
    """Return a proof in a few words, to stand beside the name of a model."""
    return f'<span class="badge {kind}">{escape(words)}</span>'
