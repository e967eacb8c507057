"""Names and transitions of automata, prepared for display."""

from collections.abc import Iterable


def visible(text: str) -> str:
    """A name with unprintable characters escaped."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def edges(row: Iterable[int]) -> dict[int, list[int]]:
    """The next states in a row of transitions, each with the tokens that lead to it."""
    found: dict[int, list[int]] = {}
    for token, there in enumerate(row):
        found.setdefault(there, []).append(token)
    return found
