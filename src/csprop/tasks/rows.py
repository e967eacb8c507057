"""The user's own labelled sequences, from Python: lists, arrays, columns of a table."""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from csprop.data.examples import UNLABELLED, Examples, RowArrays
from csprop.data.pack import Table, packed
from csprop.data.read import ROWS, Reading, Rows, columns
from csprop.data.summary import Summary, summary
from csprop.errors import InputError
from csprop.files import digest, replace
from csprop.tasks.base import Task

if TYPE_CHECKING:
    from torch import Generator

    from csprop.tasks.file import FileTask


class RowsTask(Task):
    """Labelled sequences. The correct class of any other sequence is unknown."""

    description = "your own data"
    preset = "router"

    def __init__(self, name: str, table: Table) -> None:
        self.name, self._given = name, table
        self.vocab, self.classes, self.words = tuple(table.vocab), tuple(table.classes), table.words

    @cached_property
    def table(self) -> Table:
        """The rows, and the line of each."""
        return self._given

    @property
    def data(self) -> Examples:
        """All rows, in their order."""
        return self.row_arrays.examples

    @property
    def row_arrays(self) -> RowArrays:
        """The same in arrays of NumPy."""
        return self.table.rows

    def line(self, row: int) -> int:
        """The number of the line of row 0, 1, … in its file, from 1 on; without a file, row + 1."""
        return int(self.table.lines[row])

    @cached_property
    def summary(self) -> Summary:
        """What there is: rows, tokens, lengths, classes, duplicates and contradictions."""
        return summary(self.data, self.classes)

    @property
    def oracle(self) -> None:
        return None

    def examples(self, count: int, length: int, generator: "Generator") -> Examples:
        return self.data

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "sha256": self.sha256,
            "vocab": list(self.vocab),
            "classes": list(self.classes),
            "words": self.words,
        }

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of the file that `save` writes."""
        return digest(self._written())

    def save(self, path: str | Path) -> "FileTask":
        """Write the rows to a JSONL file, from which a run can read them again.

        A file that has these rows already is left as it is.

        Args:
            path: the file, of which the name ends in .jsonl.

        Returns:
            The file as a task, with the same tokens and classes.

        Raises:
            InputError: the file exists and has other content, or has another suffix.
        """
        from csprop.tasks.file import FileTask

        path, content = Path(path), self._written()
        if path.suffix != ".jsonl":
            raise InputError(f"{path}: the name must end in .jsonl")
        if path.exists():
            if Reading(path).to_end().sha256 != digest(content):
                raise InputError(f"{path}: exists and holds other rows: choose another name")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, content)
        return FileTask(path.absolute(), digest(content), self.vocab, self.classes, self.words)

    def _written(self) -> bytes:
        # A string is shorter than a list; but its words and spaces may not be the tokens.
        plain = not self.words and not any(name.isspace() for name in self.vocab)
        lines = []
        for batch in self.row_arrays.windows():
            parts = (batch.tokens, batch.labels, batch.lengths)
            for tokens, labels, length in zip(*(each.tolist() for each in parts), strict=True):
                names = [self.vocab[token] for token in tokens[:length]]
                given = [self.classes[each] for each in labels[:length] if each != UNLABELLED]
                row = {
                    "sequence": "".join(names) if plain else names,
                    "label": given if len(given) == length > 1 else given[-1],
                }
                lines.append(json.dumps(row, ensure_ascii=False) + "\n")
        return "".join(lines).encode()

    def truth(self, sequence: Sequence[int]) -> NoReturn:
        self._unknown()

    def start(self) -> NoReturn:
        self._unknown()

    def step(self, state: Any, token: int) -> NoReturn:
        self._unknown()

    def answer(self, state: Any) -> NoReturn:
        self._unknown()

    def _unknown(self) -> NoReturn:
        raise InputError(f"{self.source}: the correct class is known only for the rows that are given")


def from_rows(sequences: Iterable[Any], labels: Iterable[Any], name: str = "rows") -> RowsTask:
    """A task from labelled sequences in Python.

    Args:
        sequences: strings, or lists of tokens, which are strings or whole numbers. A list, an array, a
            column of a data frame or of a data set: anything that can be iterated.
        labels: for each sequence a label (a string, whole number or boolean), or a list with one for
            every token.
        name: a name for the task.

    Raises:
        InputError: a row is malformed, which the message names, or there are fewer labels than
            sequences, or more.
    """
    for what, given in (("sequences", sequences), ("labels", labels)):
        if isinstance(given, str | bytes) or not isinstance(given, Iterable):
            raise InputError(f"{what}: give a list, or another collection, with one entry for each row")
    if iter(sequences) is sequences or iter(labels) is labels:  # they may be needed twice
        sequences, labels = list(sequences), list(labels)
    return RowsTask(name, packed(name, lambda: _some(sequences, labels, name)))


def _some(sequences: Iterable[Any], labels: Iterable[Any], name: str) -> Iterator[Rows]:
    rows = _rows(sequences, labels, name)
    while some := list(islice(rows, ROWS)):
        yield columns(some)


def _rows(sequences: Iterable[Any], labels: Iterable[Any], name: str) -> Iterator[tuple[int, Any, Any]]:
    try:
        for number, (sequence, label) in enumerate(zip(sequences, labels, strict=True), start=1):
            yield number, _plain(sequence), _plain(label)
    except ValueError:
        raise InputError(f"{name}: there must be one label for each sequence") from None


def _plain(value: Any) -> Any:
    """Python's own lists, strings and numbers, from those of NumPy, torch or pandas."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        kinds = set(map(type, value))
        return list(value) if kinds <= {str, int, bool} else [_plain(each) for each in value]
    return value
