"""The user's own data: labelled sequences from a JSONL, CSV or TSV file.

JSONL has one object per line. A sequence is a string or a list of tokens. A label is one class for the
whole sequence, or a list with one class for every token:

    {"sequence": "0110", "label": "even"}
    {"sequence": ["open", "close"], "label": [0, 1]}

CSV and TSV have two columns, sequence and label; a header row with these names is skipped. The tokens
of a string are its characters. If any sequence of the file contains spaces or longer tokens, they are
its words instead.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from csprop.data.pack import Table, packed
from csprop.data.read import SUFFIXES, Reading, Rows
from csprop.errors import InputError
from csprop.tasks.base import Task
from csprop.tasks.rows import RowsTask

__all__ = ["SUFFIXES", "FileTask", "from_file"]


class FileTask(RowsTask):
    """A file of labelled sequences. The correct class of any other sequence is unknown.

    The file is read when `data` is first used, and must still have this SHA-256 then.
    """

    def __init__(
        self,
        path: Path,
        sha256: str,
        vocab: Sequence[str],
        classes: Sequence[str],
        words: bool,
        stored: str | None = None,
    ) -> None:
        self.name, self.path, self.sha256 = path.stem, path, sha256
        self.stored = str(path) if stored is None else stored
        """The path as config.json has it; one that is relative begins at the run directory."""
        self.vocab, self.classes, self.words = tuple(vocab), tuple(classes), words

    @cached_property
    def table(self) -> Table:
        """The rows, and the line of each.

        Raises:
            InputError: the file is missing or has changed.
        """
        reading = Reading(self.path)
        if Reading(self.path).to_end().sha256 != self.sha256:
            self._changed()
        table = packed(str(self.path), reading.rows, self.words, self.vocab, self.classes)
        if reading.sha256 != self.sha256:
            self._changed()
        return table

    def _changed(self) -> None:
        raise InputError(f"{self.path}: has changed since training: restore the file, or train again")

    @property
    def source(self) -> str:
        return self.path.name

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "data": self.stored, **super().describe()}


def from_file(path: str | Path, like: Task | None = None) -> FileTask:
    """Read a data file.

    Rows of the same sequence may have different labels: some of them are wrong then, and `summary` of
    the task counts them.

    Args:
        path: a .jsonl, .csv or .tsv file.
        like: a task whose vocabulary and classes to use; a row with any other token or label is an
            error. Without it, the vocabulary and the classes are those that occur in the file.

    Raises:
        InputError: the file cannot be read, or a row is malformed; the message names the row.
    """
    path = Path(path)
    readings: list[Reading] = []

    def rows() -> Iterator[Rows]:
        readings.append(Reading(path))
        return readings[-1].rows()

    if like is None:
        table = packed(str(path), rows)
    else:
        table = packed(str(path), rows, like.words, like.vocab, like.classes)
    task = FileTask(path.absolute(), readings[-1].sha256, table.vocab, table.classes, table.words)
    task.table = table
    return task
