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
        self.known, self.longest = known, 1
        self._numbers: dict[str, int] = {}
        self._by_type: dict[type, dict[Any, int]] = {str: self._numbers, int: {}, bool: {}}
        self._characters = np.full(0x110000, UNKNOWN, np.int32)
        for name in known or ():
            self._add(name)

    def _add(self, name: str) -> int:
        number = self._numbers[name] = len(self._numbers)
        if len(name) == 1 and not name.isspace():  # spaces between characters are not tokens
            self._characters[ord(name)] = number
        self.longest = max(self.longest, len(name))
        return number

    def number(self, name: str) -> int:
        """Return the number of a name, or UNKNOWN if it is not in the known list."""
        number = self._numbers.get(name, UNKNOWN)
        return self._add(name) if number == UNKNOWN and self.known is None else number

    def number_characters(self, text: str) -> Numbers | None:
        """Return the number of each character; None if one is a space, unprintable or unknown."""
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
        numbers = self._characters[codes]
        for code in np.unique(codes[numbers == UNKNOWN]).tolist():
            character = chr(code)
            good = character.isprintable() and not character.isspace()
            if not good or self.number(character) == UNKNOWN:
                return None
            numbers[codes == code] = self.number(character)
        return numbers

    def number_values(self, values: Sequence[Any]) -> Numbers | None:
        """Return the number of each value; None if types differ, or one is not a known name."""
        kinds = set(map(type, values))
        if not kinds:
            return np.empty(0, np.int32)
        numbers = self._by_type.get(kinds.pop())
        if kinds or numbers is None:
            return None
        for value in set(values) - numbers.keys():
            name = to_name(value)
            if name is None or not name.isprintable() or self.number(name) == UNKNOWN:
                return None
            numbers[value] = self.number(name)
        return np.fromiter(map(numbers.__getitem__, values), np.int32, len(values))

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
