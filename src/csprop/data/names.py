"""Names of tokens and of classes, and their numbers."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from csprop.automata.names import join_names
from csprop.errors import InputError

Numbers = NDArray[Any]
UNKNOWN = -1
"""The number of a name that is not in a known list."""


class Names:
    """Numbers for names: their places in a known list, or else in the order in which they are seen."""

    def __init__(self, known: Sequence[str] | None) -> None:
        self.known = known
        self._numbers = {name: number for number, name in enumerate(known or ())}

    @property
    def longest(self) -> int:
        """The length of the longest name."""
        return max(map(len, self._numbers), default=0)

    def number(self, name: str) -> int:
        """Return the number of a name, or UNKNOWN if it is not in the known list."""
        if self.known is None:
            return self._numbers.setdefault(name, len(self._numbers))
        return self._numbers.get(name, UNKNOWN)

    def number_values(self, values: Sequence[Any]) -> Numbers | None:
        """Return the number of each value, or character; None if one is not a name or is unknown."""
        plain = isinstance(values, str) or set(map(type, values)) == {str}
        names = values if plain else [*map(to_name, values)]
        for name in set(names) - self._numbers.keys():
            if not name or not name.isprintable() or self.number(name) == UNKNOWN:
                return None
        return np.fromiter(map(self._numbers.__getitem__, names), np.int32, len(names))

    def sort(self) -> tuple[list[str], Numbers]:
        """Return the names in their final order, and the final number of each."""
        names = list(self._numbers)
        if self.known is None:
            names = sort_names(names)
        final = np.empty(len(names), np.int32)
        final[[self._numbers[name] for name in names]] = np.arange(len(names))
        return names, final


def to_name(value: Any) -> str | None:
    """Return the name of a token or label: a string, whole number or boolean; None for others."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        try:
            return str(value) or None
        except ValueError:  # a number of thousands of digits
            return None
    return None


def sort_names(names: Iterable[str]) -> list[str]:
    """Sort names: as numbers if all of them are numbers, otherwise alphabetically."""
    names = list(names)
    try:
        return sorted(names, key=lambda name: (int(name), name))
    except ValueError:
        return sorted(names)


def split_symbols(text: str, words: bool) -> list[str]:
    """Split a written sequence into its tokens: words separated by spaces, or characters."""
    return text.split() if words else [each for each in text if not each.isspace()]


def join_symbols(symbols: Sequence[str], words: bool) -> str:
    """Write tokens as one string: the inverse of `split_symbols`."""
    return (" " if words else "").join(symbols)


def encode(symbols: Sequence[str], vocab: Sequence[str], where: str) -> list[int]:
    """Return the numbers of the tokens in a vocabulary; `where` names the sequence in messages."""
    if not symbols:
        raise InputError(f"{where}: the sequence is empty: write at least one token")
    numbers = {symbol: number for number, symbol in enumerate(vocab)}
    for position, symbol in enumerate(symbols, start=1):
        if symbol not in numbers:
            raise InputError(
                f"{where}: token {symbol!r} at position {position} is not in the vocabulary: "
                f"write {join_names(vocab)}"
            )
    return [numbers[symbol] for symbol in symbols]
