"""How a machine's names and moves are shown to people."""

from collections.abc import Iterable


def visible(text: str) -> str:
    """A name for a picture: what cannot be seen as an escape."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def edges(row: Iterable[int]) -> dict[int, list[int]]:
    """Where a state leads to, and the tokens that lead there."""
    found: dict[int, list[int]] = {}
    for token, there in enumerate(row):
        found.setdefault(there, []).append(token)
    return found
