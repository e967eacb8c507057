"""The user's own data: labelled sequences from a JSONL, CSV or TSV file.

JSONL has one object per line. A sequence is a string or a list of tokens. A label is one class for the
whole sequence, or a list with one class for every token:

    {"sequence": "0110", "label": "even"}
    {"sequence": ["open", "close"], "label": [0, 1]}

CSV and TSV have two columns, sequence and label; a header row with these names is skipped. The tokens
of a string are its characters. If any sequence of the file contains spaces or longer tokens, they are
its words instead.
"""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Generator

from csprop.errors import InputError
from csprop.files import digest
from csprop.tasks.base import UNLABELLED, Examples, Task, encode, shown, symbols

SUFFIXES = (".jsonl", ".csv", ".tsv")


@dataclass(frozen=True)
class Line:
    """One row of a file, as text."""

    where: str  # "events.jsonl row 3"
    symbols: tuple[str, ...]
    labels: str | tuple[str, ...]


class FileTask(Task):
    """A file of labelled sequences. The correct class of any other sequence is unknown.

    The file is read when `data` is first used, and must still have this SHA-256 then.
    """

    description = "your own data"
    preset = "router"

    def __init__(
        self, path: Path, sha256: str, vocab: Sequence[str], classes: Sequence[str], words: bool
    ) -> None:
        self.name, self.path, self.sha256 = path.stem, path, sha256
        self.vocab, self.classes, self.words = tuple(vocab), tuple(classes), words
        self._data: Examples | None = None

    @property
    def data(self) -> Examples:
        """All rows, in the order of the file.

        Raises:
            InputError: the file is missing or has changed.
        """
        if self._data is None:
            self._data = self._read()
        return self._data

    def _read(self) -> Examples:
        content = _content(self.path)
        if digest(content.encode()) != self.sha256:
            raise InputError(
                f"{self.path}: has changed since training: restore the file, or train again"
            )
        rows = _rows(_cells(self.path, content), self.words)
        return _examples(rows, self.vocab, self.classes)

    @property
    def source(self) -> str:
        return self.path.name

    @property
    def oracle(self) -> None:
        return None

    def examples(self, count: int, length: int, generator: Generator) -> Examples:
        return self.data

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "data": str(self.path),
            "sha256": self.sha256,
            "vocab": list(self.vocab),
            "classes": list(self.classes),
            "words": self.words,
        }

    def truth(self, sequence: Sequence[int]) -> NoReturn:
        self._unknown()

    def start(self) -> NoReturn:
        self._unknown()

    def step(self, state: Any, token: int) -> NoReturn:
        self._unknown()

    def answer(self, state: Any) -> NoReturn:
        self._unknown()

    def _unknown(self) -> NoReturn:
        raise InputError(f"{self.path}: the correct class is known only for the rows of the file")


def from_file(path: str | Path, like: Task | None = None) -> FileTask:
    """Read a data file.

    Args:
        path: a .jsonl, .csv or .tsv file.
        like: a task whose vocabulary and classes to use; a row with any other token or label is an
            error. Without it, the vocabulary and the classes are those that occur in the file.

    Raises:
        InputError: the file cannot be read, or a row is malformed; the message names the row.
    """
    path = Path(path)
    content = _content(path)
    cells = _cells(path, content)
    words = like.words if like else any(_has_words(sequence) for _, sequence, _ in cells)
    rows = _rows(cells, words)
    _reject_contradictions(rows)
    if like:
        vocab, classes = like.vocab, like.classes
    else:
        vocab = _in_order({symbol for row in rows for symbol in row.symbols})
        classes = _in_order({label for row in rows for label in _each_label(row)})
        if len(classes) < 2:
            raise InputError(
                f"{path}: every label is {classes[0]!r}: there must be at least two classes"
            )
    task = FileTask(path.absolute(), digest(content.encode()), vocab, classes, words)
    task._data = _examples(rows, vocab, classes)
    return task


def _content(path: Path) -> str:
    if path.suffix not in SUFFIXES:
        raise InputError(f"{path}: the name must end in .jsonl, .csv or .tsv")
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: cannot be read: it is not a regular file")
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8 text") from None
    except ValueError:
        raise InputError(f"{str(path)!r}: cannot be read: no file can have this name") from None


def _cells(path: Path, content: str) -> list[tuple[str, Any, Any]]:
    """(where, sequence, label) of each row, as written."""
    read = _json_cells if path.suffix == ".jsonl" else _table_cells
    cells = list(read(path, content))
    if not cells:
        raise InputError(f"{path}: has no rows: write at least two labelled sequences")
    return cells


def _rows(cells: list[tuple[str, Any, Any]], words: bool) -> list[Line]:
    return [_row(where, sequence, label, words) for where, sequence, label in cells]


def _json_cells(path: Path, content: str) -> Iterator[tuple[str, Any, Any]]:
    for number, line in enumerate(content.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path} row {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict) or not {"sequence", "label"} <= row.keys():
            raise InputError(f'{where}: write {{"sequence": …, "label": …}}, one JSON object per line')
        yield where, row["sequence"], row["label"]


def _table_cells(path: Path, content: str) -> Iterator[tuple[str, str, str]]:
    delimiter = "\t" if path.suffix == ".tsv" else ","
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter)
    try:
        for number, cells in enumerate((cells for cells in reader if cells), start=1):
            where = f"{path} row {reader.line_num}"
            names = [each.strip().lower() for each in cells]
            if number == 1 and names == ["label", "sequence"]:
                raise InputError(f"{where}: the columns are in the wrong order: write sequence, label")
            if number == 1 and names == ["sequence", "label"]:
                continue
            if len(cells) != 2:
                raise InputError(f"{where}: has {len(cells)} columns: write two, sequence and label")
            yield where, cells[0], cells[1].strip()
    except csv.Error as error:
        raise InputError(f"{path} row {reader.line_num}: {error}") from None


def _has_words(sequence: Any) -> bool:
    if isinstance(sequence, str):
        return len(sequence.split()) > 1
    return isinstance(sequence, list) and any(len(str(token)) > 1 for token in sequence)


def _row(where: str, sequence: Any, label: Any, words: bool) -> Line:
    if isinstance(sequence, str):
        tokens = tuple(_printable(where, token, "token") for token in symbols(sequence, words))
    elif isinstance(sequence, list):
        tokens = tuple(_label(where, token, "token") for token in sequence)
    else:
        raise InputError(f"{where}: the sequence must be a string or a list of tokens")
    if not tokens:
        raise InputError(f"{where}: the sequence is empty: write at least one token")
    if not isinstance(label, list):
        return Line(where, tokens, _label(where, label))
    if len(label) != len(tokens):
        raise InputError(
            f"{where}: {len(label)} labels for {len(tokens)} tokens: write one label for the whole "
            "sequence or one for every token"
        )
    return Line(where, tokens, tuple(_label(where, each) for each in label))


def _label(where: str, value: Any, what: str = "label") -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int) or value == "":
        raise InputError(f"{where}: the {what} {value!r} must be a string or a whole number")
    return _printable(where, str(value), what)


def _printable(where: str, text: str, what: str) -> str:
    if not text.isprintable():
        raise InputError(f"{where}: the {what} {text!r} has unprintable characters: remove them")
    return text


def _each_label(row: Line) -> tuple[str, ...]:
    return (row.labels,) if isinstance(row.labels, str) else row.labels


def _in_order(names: set[str]) -> list[str]:
    """Sorted: as numbers if all of them are, otherwise alphabetically."""
    try:
        return sorted(names, key=lambda name: (int(name), name))
    except ValueError:
        return sorted(names)


def _reject_contradictions(rows: list[Line]) -> None:
    seen: dict[tuple[str, ...], Line] = {}
    for row in rows:
        first = seen.setdefault(row.symbols, row)
        # Aligned at the end, where the label of the whole sequence is.
        pairs = zip(reversed(_each_label(first)), reversed(_each_label(row)), strict=False)
        if any(one != other for one, other in pairs):
            raise InputError(
                f"{row.where}: has the same sequence as row {first.where.rsplit(' ', 1)[1]}, but "
                "another label: remove one of the two"
            )


def _examples(rows: list[Line], vocab: Sequence[str], classes: Sequence[str]) -> Examples:
    numbers = {name: number for number, name in enumerate(classes)}
    longest = max(len(row.symbols) for row in rows)
    tokens = torch.zeros(len(rows), longest, dtype=torch.int64)
    labels = torch.full_like(tokens, UNLABELLED)
    for i, row in enumerate(rows):
        length = len(row.symbols)
        tokens[i, :length] = torch.tensor(encode(row.symbols, vocab, row.where))
        for label in _each_label(row):
            if label not in numbers:
                raise InputError(f"{row.where}: the label {label!r} is unknown: write {shown(classes)}")
        given = torch.tensor([numbers[label] for label in _each_label(row)])
        labels[i, length - len(given) : length] = given
    return Examples(tokens, labels, labels != UNLABELLED)
