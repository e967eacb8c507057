"""Numbers that others printed for the same layers on the same tasks, each with its source."""

from collections.abc import Sequence
from dataclasses import dataclass

from csprop_lab.study.protocols import Protocol
from csprop_lab.study.texts import markdown, read_numbers


@dataclass(frozen=True, kw_only=True)
class Source:
    """A printed table, or a part of it."""

    protocol: str
    cited: str
    setting: str
    """The measure and the setup."""
    tasks: list[str]
    numbers: dict[str, list[str]]
    """By layer, with a change to it in brackets; in the order of the tasks."""


SOURCES = tuple(Source(**each) for each in read_numbers("published.json"))


def show_published(protocol: Protocol, models: Sequence[str]) -> str:
    """Return the printed numbers of these models on the tasks of a protocol, in Markdown, if any."""
    parts = []
    for source in SOURCES:
        lines = [
            [name, *numbers]
            for name, numbers in source.numbers.items()
            if name.partition(" (")[0] in models
        ]
        if source.protocol == protocol.name and lines:
            parts.append(f"{source.cited}: {source.setting}.")
            parts.append(markdown(["model", *source.tasks], lines))
    return "\n\n".join(parts)
