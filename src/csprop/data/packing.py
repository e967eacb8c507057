"""From rows as they are written to packed examples.

`read_row` defines a row. It makes a Python object of every token, which takes long for millions of
rows. So rows of one simple kind are packed many at a time, with the same result.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from csprop.automata.names import join_names
from csprop.data.examples import UNLABELLED, Examples
from csprop.data.formats import Batch
from csprop.data.names import UNKNOWN, Names, Numbers, encode, split_symbols, to_name
from csprop.errors import InputError

Packed = tuple[Numbers, Numbers, Numbers]
"""The tokens of some rows one after the other, their lengths, and the label of every token."""


class WordsFound(Exception):
    """Tokens were taken for characters, and are words."""


@dataclass(frozen=True)
class Rows:
    """The user's labelled sequences."""

    vocab: list[str]
    classes: list[str]
    words: bool
    examples: Examples
    lines: Numbers  # (N,), the number of the line of each row


class Packer:
    """Takes rows, some at a time; in the end they are `Rows`. The arguments are those of `pack`."""

    def __init__(
        self,
        where: str,
        words: bool | None,
        vocab: Sequence[str] | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        self.where, self.words = where, words
        self.tokens, self.labels = Names(vocab), Names(classes)
        self._packed: list[Packed] = []
        self._lines: list[Numbers] = []

    def add(self, batch: Batch) -> None:
        """Take some rows; raise `WordsFound` at a word, if it is not known whether tokens are words."""
        lines, sequences, labels = batch
        if not lines:
            return
        self._packed.append(_shrink(self._at_once(sequences, labels) or self._one_by_one(batch)))
        self._lines.append(np.array(lines, np.int32))
        if self.words is None and self.tokens.longest > 1:
            raise WordsFound

    def _at_once(self, sequences: Sequence[Any], labels: Sequence[Any]) -> Packed | None:
        """Pack the rows, or return None if they are not all of one simple kind."""
        kinds = set(map(type, sequences))
        if kinds == {str} and not self.words:
            lengths, text = list(map(len, sequences)), "".join(sequences)
            tokens = None if " " in text else self.tokens.number_values(text)  # no token, there
        elif kinds in ({list}, {str}):
            lists = sequences if kinds == {list} else list(map(str.split, sequences))
            lengths, flat = list(map(len, lists)), list(chain.from_iterable(lists))
            tokens = self.tokens.number_values(flat)
        else:
            return None
        if tokens is None or not all(lengths):
            return None
        if set(map(type, labels)) == {list}:
            every = self.labels.number_values(list(chain.from_iterable(labels)))
            if every is None or list(map(len, labels)) != lengths:
                return None
            return tokens, np.array(lengths), every
        if (last := self.labels.number_values(labels)) is None:
            return None
        every = np.full(len(tokens), UNLABELLED, np.int32)
        every[np.cumsum(lengths) - 1] = last
        return tokens, np.array(lengths), every

    def _one_by_one(self, batch: Batch) -> Packed:
        tokens, labels = [], []
        for line, sequence, label in zip(*batch, strict=True):
            where = f"{self.where} row {line}"
            if self.words is None and has_words(sequence):
                raise WordsFound
            names, class_names = read_row(where, sequence, label, bool(self.words))
            numbers = [self.tokens.number(name) for name in names]
            if UNKNOWN in numbers:
                encode(names, self.tokens.known or (), where)  # names the unknown token
            classes = [self.labels.number(name) for name in class_names]
            if UNKNOWN in classes:
                unknown = class_names[classes.index(UNKNOWN)]
                known = join_names(self.labels.known or ())
                raise InputError(f"{where}: the label {unknown!r} is unknown: write {known}")
            tokens.append(numbers)
            labels.append([UNLABELLED] * (len(numbers) - len(classes)) + classes)
        flat = [np.fromiter(chain.from_iterable(each), np.int32) for each in (tokens, labels)]
        return flat[0], np.array([*map(len, tokens)]), flat[1]

    def rows(self) -> Rows:
        """Return all rows."""
        if not self._packed:
            raise InputError(f"{self.where}: has no rows: write at least two labelled sequences")
        vocab, tokens = self.tokens.sort()
        classes, labels = self.labels.sort()
        if len(classes) < 2:
            raise InputError(
                f"{self.where}: every label is {classes[0]!r}: there must be at least two classes"
            )
        tokens = tokens.astype(np.uint8 if len(vocab) <= 2**8 else np.int32)
        labels = np.append(labels, UNLABELLED)  # which stands at -1, the last place
        labels = labels.astype(np.int8 if len(classes) <= 2**7 else np.int32)
        flat_tokens = np.concatenate([tokens[each] for each, _, _ in self._packed])
        flat_labels = np.concatenate([labels[each] for _, _, each in self._packed])
        lengths = np.concatenate([each for _, each, _ in self._packed], dtype=np.int64)
        begins = np.cumsum(lengths) - lengths
        examples = Examples(flat_tokens, flat_labels, flat_labels != UNLABELLED, begins, lengths)
        return Rows(vocab, classes, bool(self.words), examples, np.concatenate(self._lines))


def pack(
    where: str,
    batches: Callable[[], Iterable[Batch]],
    words: bool | None = None,
    vocab: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
) -> Rows:
    """Read rows, taking characters for tokens; if a word occurs, start again with words.

    Args:
        where: the origin of the rows, for messages.
        batches: begins to read the rows, some at a time.
        words: True if strings are words; None if that is not known.
        vocab: the tokens that may occur; None means any.
        classes: the labels that may occur; None means any.

    Raises:
        InputError: a row is malformed, there are none, or all have the same label.
    """
    packer = Packer(where, words, vocab, classes)
    try:
        for batch in batches():
            packer.add(batch)
    except WordsFound:
        return pack(where, batches, True, vocab, classes)
    except InputError:  # a row that is wrong as characters may be right as words
        if words is None and any(has_words(each) for batch in batches() for each in batch[1]):
            return pack(where, batches, True, vocab, classes)
        raise
    return packer.rows()


def _shrink(packed: Packed) -> Packed:
    """Return the same numbers in fewer bytes, where they fit."""
    tokens, lengths, labels = packed
    tokens = tokens.astype(np.uint8) if tokens.max() < 2**8 else tokens
    labels = labels.astype(np.int8) if labels.max() < 2**7 else labels
    return tokens, lengths.astype(np.int32), labels


def has_words(sequence: Any) -> bool:
    """Return True if spaces separate the tokens of a sequence, or one is longer than a character."""
    if isinstance(sequence, str):
        return len(sequence.split()) > 1
    return isinstance(sequence, list) and any(len(to_name(token) or "") > 1 for token in sequence)


def read_row(where: str, sequence: Any, label: Any, words: bool) -> tuple[list[str], list[str]]:
    """Return the tokens of one row, and its labels: one for the whole, or one for every token."""
    if isinstance(sequence, str):
        tokens = [_printable(where, token, "token") for token in split_symbols(sequence, words)]
    elif isinstance(sequence, list):
        tokens = [_name(where, token, "token") for token in sequence]
    else:
        raise InputError(f"{where}: the sequence must be a string or a list of tokens")
    if not tokens:
        raise InputError(f"{where}: the sequence is empty: write at least one token")
    if not isinstance(label, list):
        return tokens, [_name(where, label, "label")]
    if len(label) != len(tokens):
        raise InputError(
            f"{where}: {len(label)} labels for {len(tokens)} tokens: write one label for the whole "
            "sequence or one for every token"
        )
    return tokens, [_name(where, each, "label") for each in label]


def _name(where: str, value: Any, what: str) -> str:
    name = to_name(value)
    if value == "":
        raise InputError(f"{where}: the {what} is empty")
    if name is None:
        raise InputError(f"{where}: the {what} {_quote(value)} must be a string or a whole number")
    return _printable(where, name, what)


def _quote(value: Any, most: int = 60) -> str:
    """Return a short value for a message."""
    try:
        text = repr(value)
    except ValueError:
        return "with thousands of digits"
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= most else f"{text[:most]}…"


def _printable(where: str, text: str, what: str) -> str:
    if not text.isprintable():
        raise InputError(f"{where}: the {what} {_quote(text)} has unprintable characters: remove them")
    return text
