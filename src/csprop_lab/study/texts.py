"""The files of assets/: the prose of the reports, and numbers that others printed."""

import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any


ASSETS = files("csprop_lab.study") / "assets"


def read_numbers(name: str) -> Any:
    """Return the content of a JSON file in assets/."""
    return json.loads((ASSETS / name).read_text("utf-8"))


@cache
def _sections() -> dict[str, str]:
    _, *parts = re.split(r"^# (\S+)\n", (ASSETS / "texts.md").read_text("utf-8"), flags=re.MULTILINE)
    within = re.compile(r"(?<!\n)\n(?!\n)")  # a line break within a paragraph
    sections = zip(parts[::2], parts[1::2], strict=True)
    return {name: within.sub(" ", text.strip()) for name, text in sections}


def words(name: str, **fields: Any) -> str:
    """Return a section of texts.md with its fields filled in; each paragraph is one line."""
    return _sections()[name].format(**fields)


def markdown(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    rule = ["---"] * len(headings)
    return "\n".join(f"| {' | '.join(line)} |" for line in (headings, rule, *lines))
