"""Data files, read some lines at a time: a file of any size needs little memory."""

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from csprop.errors import InputError, without
from csprop.files import fault, open_file

SUFFIXES = (".jsonl", ".csv", ".tsv")
BLOCK, ROWS = 1 << 20, 1 << 13
"""Bytes that are read at once, and rows of a table that are passed on at once."""
MARK = "\N{BYTE ORDER MARK}".encode()
KEYS = ("sequence", "label")
FORM = 'write {"sequence": …, "label": …}, one JSON object per line'

Batch = tuple[list[int], list[Any], list[Any]]
"""Some rows as written: the number of the first line of each, its sequence and its label."""
_decode = json.JSONDecoder().raw_decode


class FileReader:
    """One reading of a file from start to end; afterwards `sha256` is the digest of its text."""

    def __init__(self, path: Path) -> None:
        self.path, self._digest = path, hashlib.sha256()

    @property
    def sha256(self) -> str:
        """The SHA-256 of the content read so far, without a byte order mark."""
        return self._digest.hexdigest()

    def to_end(self) -> "FileReader":
        """Read the whole file only for its digest."""
        for _ in self._blocks():
            pass
        return self

    def batches(self) -> Iterator[Batch]:
        """Yield the rows of the file, some at a time."""
        return self._json_batches() if self.path.suffix == ".jsonl" else batch_rows(self._table())

    def _blocks(self) -> Iterator[bytes]:
        """Yield the content, cut after the ends of lines."""
        if self.path.suffix not in SUFFIXES:
            raise InputError(f"{self.path}: the name must end in .jsonl, .csv or .tsv")
        with open_file(self.path) as file:
            mark = MARK
            while block := file.read(BLOCK):
                block = (block + file.readline()).removeprefix(mark)
                self._digest.update(block)
                yield block
                mark = b""

    def _texts(self) -> Iterator[str]:
        before = 0
        for block in self._blocks():
            try:
                text = block.decode()
            except UnicodeDecodeError as error:
                place = before + error.start
                raise InputError(f"{self.path}: byte {place} is not UTF-8 text") from None
            before += len(block)
            yield text

    def _json_batches(self) -> Iterator[Batch]:
        before = 0
        for text in self._texts():
            lines = text.removesuffix("\n").split("\n")
            batch: Batch = [], [], []
            numbers, sequences, labels = batch
            for number, line in enumerate(lines, start=before + 1):
                line = line.strip()
                if not line:
                    continue
                try:
                    row, end = _decode(line)
                    sequences.append(row["sequence"])
                    labels.append(row["label"])
                except (ValueError, RecursionError, LookupError, TypeError):
                    end = -1
                if end != len(line):
                    raise InputError(f"{self.path} row {number}: {_describe_fault(line)}")
                numbers.append(number)
            before += len(lines)
            yield batch

    def _table(self) -> Iterator[tuple[int, str, str]]:
        delimiter = "\t" if self.path.suffix == ".tsv" else ","
        lines = (line for text in self._texts() for line in io.StringIO(text, newline=""))
        reader, began, headed = csv.reader(lines, delimiter=delimiter), 1, False
        limit = csv.field_size_limit(2**31 - 1)  # a sequence may be long
        try:
            for cells in reader:
                number, began = began, reader.line_num + 1
                if not cells:
                    continue
                where = f"{self.path} row {number}"
                names = () if headed else tuple(each.strip().lower() for each in cells)
                headed = True
                if names == KEYS:
                    continue
                if names == KEYS[::-1]:
                    raise InputError(
                        f"{where}: the columns are in the wrong order: write sequence, label"
                    )
                if len(cells) != 2:
                    raise InputError(
                        f"{where}: has {len(cells)} columns: write two, sequence and label"
                    )
                yield number, cells[0], cells[1].strip()
        except csv.Error as error:
            raise InputError(f"{self.path} row {began}: {error}") from None
        finally:
            csv.field_size_limit(limit)


def batch_rows(rows: Iterable[tuple[int, Any, Any]]) -> Iterator[Batch]:
    """Yield rows, some at a time, as three lists."""
    rows = iter(rows)
    while some := list(islice(rows, ROWS)):
        yield [row[0] for row in some], [row[1] for row in some], [row[2] for row in some]


def _describe_fault(line: str) -> str:
    """Return why a line is not a row: it is not JSON, or has other keys."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"is not JSON: {fault(error)}: {FORM}"
    if not isinstance(row, dict):
        return f"is not a JSON object: {FORM}"
    missing = next(key for key in KEYS if key not in row)
    return f"{without(missing, row, KEYS)}: {FORM}".replace("?: write", "? Write")
