"""Pieces of HTML for notebooks.

They have no script and fetch nothing. Text has the colour of the page around it. Pictures
are SVG within an `img`: their styles stay inside, and notebooks that are not trusted show them.
"""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape

# Not too light for a white page, and not too dark for a black one.
GREY, GOOD, BAD = "#7d7d7d", "#2c9a55", "#d8504a"


def card(title: str, *parts: str, proven: bool | None = None) -> str:
    """Return a heading and the parts below it; with `proven`, a mark before the heading."""
    mark = ""
    if proven is not None:
        sign, colour = ("✓", GOOD) if proven else ("✗", BAD)
        mark = f'<span style="color:{colour}">{sign}</span> '
    heading = f'<div style="font-weight:bold;margin:2px 0 4px">{mark}{escape(title)}</div>'
    return f'<div style="max-width:48em">{heading}{"".join(parts)}</div>'


def paragraph(text: str) -> str:
    """Return a paragraph of text."""
    return f'<div style="margin:4px 0">{escape(text)}</div>'


def preformatted(text: str) -> str:
    """Return text in which every character has its place."""
    style = "margin:4px 0;line-height:1.2;background:none;font-family:monospace"
    return f'<pre style="{style}">{escape(text)}</pre>'


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and their values."""
    grey = f"font-weight:normal;color:{GREY};white-space:nowrap"
    return _table(_cell("th", name, grey) + _cell("td", value) for name, value in pairs)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of text."""
    line = f"border-bottom:1px solid {GREY}"
    body = ("".join(_cell("td", text, line) for text in row) for row in rows)
    return _table(["".join(_cell("th", text, line) for text in headings), *body])


def _cell(kind: str, text: str, style: str = "") -> str:
    shape = "text-align:left;vertical-align:top;padding:1px 14px 1px 0;border:none"
    return f'<{kind} style="{shape};{style}">{escape(text)}</{kind}>'


def _table(rows: Iterable[str]) -> str:
    body = "".join(f'<tr style="background:none">{row}</tr>' for row in rows)
    style = "font-size:inherit;border:none;border-collapse:collapse;margin:4px 0"
    return f'<table style="{style}">{body}</table>'


def picture(svg: bytes, meaning: str) -> str:
    """Return a picture with a text that is read out in its place."""
    data = b64encode(svg).decode()
    return (
        f'<img alt="{escape(meaning)}" src="data:image/svg+xml;base64,{data}" '
        'style="max-width:100%;height:auto;border-radius:6px;margin:4px 12px 4px 0"/>'
    )
