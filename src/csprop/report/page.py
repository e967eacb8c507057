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
MODEL = ("planes.js", "parts.js", "csp.js")
"""The forward pass, which needs no browser."""
CHARTS = ("scales.js", "plot.js", "charts.js")
EXPLORER = ("tally.js", "machine.js", "places.js", "counters.js", "panel.js", "strip.js", "explorer.js")
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
    sections: list[str] = field(default_factory=list)
    charts: dict[str, Chart] = field(default_factory=dict)
    models: list[dict[str, Any]] = field(default_factory=list)
    tasks: list[dict[str, Any]] = field(default_factory=list)

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
        # Within a script element "<" could end it; as an escape it is the same JSON.
        packed = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
        return Template(asset("page.html")).substitute(
            title=escape(self.title),
            lead=escape(self.lead),
            style=asset("page.css"),
            body="\n".join(self.sections),
            version=__version__,
            data=packed,
            script="\n".join(map(asset, SCRIPTS)),
        )


def table(name: str, headings: list[str], rows: list[list[str]]) -> str:
    """A table of text; the first cell of a row is its heading.

    Args:
        name: what the table is called by a screen reader.
    """
    head = "".join(f'<th scope="col">{escape(each)}</th>' for each in headings)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(each)}</td>" for each in row[1:])
        + "</tr>"
        for row in rows
    )
    return scrolling(name, f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


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
