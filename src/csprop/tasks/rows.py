"""The user's own data: labelled sequences from Python, or from a JSONL, CSV or TSV file.

JSONL has one object per line. A sequence is a string or a list of tokens. A label is one class for the
whole sequence, or a list with one class for every token:

    {"sequence": "0110", "label": "even"}
    {"sequence": ["open", "close"], "label": [0, 1]}

CSV and TSV have two columns, sequence and label; a header row with these names is skipped. The tokens
of a string are its characters, or its words if any sequence has spaces or longer tokens.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from csprop.data.examples import UNLABELLED, Examples
from csprop.data.formats import Batch, FileReader, batch_rows
from csprop.data.packing import Rows, pack
from csprop.data.summary import Summary, summarise
from csprop.errors import InputError
from csprop.files import digest, replace
from csprop.tasks.base import Task

if TYPE_CHECKING:
    from torch import Generator


class RowsTask(Task):
    """Labelled sequences. The correct class of any other sequence is unknown."""

    description = "your own data"
    preset = "router"

    def __init__(self, name: str, rows: Rows) -> None:
        self.name, self._rows = name, rows
        self.vocab, self.classes, self.words = tuple(rows.vocab), tuple(rows.classes), rows.words

    @cached_property
    def rows(self) -> Rows:
        """The rows, and the line of each."""
        return self._rows

    @property
    def data(self) -> Examples:
        return self.rows.examples

    def line(self, row: int) -> int:
        """Return the line of row 0, 1, … in its file, from 1 on; without a file, row + 1."""
        return int(self.rows.lines[row])

    @cached_property
    def summary(self) -> Summary:
        """The numbers of rows, tokens, classes, duplicates and contradictions, and the lengths."""
        return summarise(self.data, self.classes)

    @property
    def oracle(self) -> None:
        return None

    def examples(self, count: int, length: int, generator: "Generator") -> Examples:
        return self.data

    def describe(self) -> dict[str, Any]:
        names = {"vocab": list(self.vocab), "classes": list(self.classes), "words": self.words}
        return {"name": self.name, "sha256": self.sha256, **names}

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of the file that `save` writes."""
        return digest(self._to_jsonl())

    def save(self, path: str | Path) -> "FileTask":
        """Write the rows to a .jsonl file, unless it has them already, and return it as a task.

        Raises:
            InputError: the file exists and has other content, or its name does not end in .jsonl.
        """
        path, content = Path(path), self._to_jsonl()
        if path.suffix != ".jsonl":
            raise InputError(f"{path}: the name must end in .jsonl")
        if path.exists():
            if FileReader(path).to_end().sha256 != digest(content):
                raise InputError(f"{path}: exists and holds other rows: choose another name")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, content)
        return FileTask(path.absolute(), digest(content), self.vocab, self.classes, self.words)

    def _to_jsonl(self) -> bytes:
        # A string is shorter than a list; but its words and spaces may not be the tokens.
        joined = not self.words and not any(name.isspace() for name in self.vocab)
        lines = []
        for batch in self.data.matrices():
            parts = (batch.tokens, batch.labels, batch.lengths)
            for tokens, labels, length in zip(*(each.tolist() for each in parts), strict=True):
                names = [self.vocab[token] for token in tokens[:length]]
                classes = [self.classes[each] for each in labels[:length] if each != UNLABELLED]
                row = {
                    "sequence": "".join(names) if joined else names,
                    "label": classes if len(classes) == length > 1 else classes[-1],
                }
                lines.append(json.dumps(row, ensure_ascii=False) + "\n")
        return "".join(lines).encode()

    def truth(self, *_: Any, **__: Any) -> NoReturn:
        raise InputError(f"{self.source}: the correct class is known only for the rows that are given")

    start = step = answer = draw = truth


class FileTask(RowsTask):
    """A file of labelled sequences. When it is first used, it must still have this SHA-256."""

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
        """The path as config.json has it; a relative path begins at the run directory."""
        self.vocab, self.classes, self.words = tuple(vocab), tuple(classes), words

    @cached_property
    def rows(self) -> Rows:
        """The rows, and the line of each; an InputError if the file is missing or has changed."""
        reader = FileReader(self.path)
        if FileReader(self.path).to_end().sha256 == self.sha256:
            rows = pack(str(self.path), reader.batches, self.words, self.vocab, self.classes)
            if reader.sha256 == self.sha256:
                return rows
        raise InputError(f"{self.path}: has changed since training: restore the file, or train again")

    @property
    def source(self) -> str:
        return self.path.name

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "data": self.stored, **super().describe()}


def from_file(path: str | Path, like: Task | None = None) -> FileTask:
    """Read a data file.

    Rows of the same sequence may have different labels: then some of them are wrong, and the task's
    `summary` counts them.

    Args:
        path: a .jsonl, .csv or .tsv file.
        like: a task whose vocabulary and classes to use; a row with any other token or label is an
            error. Without it, the file's own tokens and labels are the vocabulary and the classes.

    Raises:
        InputError: the file cannot be read, or a row is malformed; the message names the row.
    """
    reader = FileReader(path := Path(path))

    def batches() -> Iterator[Batch]:
        nonlocal reader
        reader = FileReader(path)
        return reader.batches()

    names: Any = () if like is None else (like.words, like.vocab, like.classes)
    rows = pack(str(path), batches, *names)
    task = FileTask(path.absolute(), reader.sha256, rows.vocab, rows.classes, rows.words)
    task.rows = rows
    return task


def from_rows(sequences: Iterable[Any], labels: Iterable[Any], name: str = "rows") -> RowsTask:
    """Make a task from labelled sequences in Python.

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
    for what, values in (("sequences", sequences), ("labels", labels)):
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise InputError(f"{what}: give a list, or another collection, with one entry for each row")
    if iter(sequences) is sequences or iter(labels) is labels:  # they may be needed twice
        sequences, labels = list(sequences), list(labels)

    def rows() -> Iterator[tuple[int, Any, Any]]:
        try:
            for number, (sequence, label) in enumerate(zip(sequences, labels, strict=True), start=1):
                yield number, _to_python(sequence), _to_python(label)
        except ValueError:
            raise InputError(f"{name}: there must be one label for each sequence") from None

    return RowsTask(name, pack(name, lambda: batch_rows(rows())))


def _to_python(value: Any) -> Any:
    """Convert values of NumPy, torch or pandas to Python's own lists, strings and numbers."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        kinds = set(map(type, value))
        return list(value) if kinds <= {str, int, bool} else [_to_python(each) for each in value]
    return value
