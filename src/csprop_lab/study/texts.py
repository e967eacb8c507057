"""The prose of the reports: texts.md has one section for each text, with fields in braces."""

import re
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def _sections() -> dict[str, str]:
    whole = files("csprop_lab.study").joinpath("texts.md").read_text("utf-8")
    _, *parts = re.split(r"^# (\S+)\n", whole, flags=re.MULTILINE)
    paragraphs = re.compile(r"(?<!\n)\n(?!\n)")  # a line break within a paragraph
    return {
        name: paragraphs.sub(" ", text.strip())
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


def words(name: str, **fields: Any) -> str:
    """Return a section of texts.md with its fields filled in; each paragraph is one line."""
    return _sections()[name].format(**fields)
