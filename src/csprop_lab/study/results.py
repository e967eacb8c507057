"""The rows on disk: one JSON file for each table, with one row on each line."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from csprop.errors import InputError
from csprop.files import append, digest, replace
from csprop_lab.study.job import key_of
from csprop_lab.study.measure import Row

STALE = "stale.jsonl"
"""The file for rows that no table asks for any more."""


class Results:
    """A folder of rows. A row that was written is never changed or dropped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[str, Row] = {}
        self.tables: dict[str, list[str]] = {}
        for path in sorted(folder.glob("*.json")):
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            document: Any = json.loads(path.read_bytes())
            if "table" not in document:  # something else that a folder of results may hold
                return
            keys = [(row["key"], key_of(row["job"])) for row in document["rows"]]
            changed = document["sha256"] != _digest(document["rows"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InputError(f"{path}: is not a table of results: remove it to run it again") from None
        if changed or any(stored != key for stored, key in keys):
            raise InputError(
                f"{path}: was edited after it was written: restore it, or remove it to run it again"
            )
        self.rows |= {row["key"]: row for row in document["rows"]}
        self.tables[path.stem] = [stored for stored, _ in keys]

    def add(self, table: str, rows: Iterable[Row]) -> None:
        """Write new rows; a row whose key is there already is left as it is."""
        keys = self.tables.setdefault(table, [])
        for row in rows:
            if row["key"] not in self.rows:
                self.rows[row["key"]] = row
                keys.append(row["key"])
        self._write(table)

    def set_aside(self, wanted: set[str]) -> int:
        """Move rows that no table asks for any more to a file of their own, and say how many."""
        stale = [row for key, row in self.rows.items() if key not in wanted]
        if stale:
            lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in stale)
            append(self.folder / STALE, lines.encode())
        self.rows = {key: row for key, row in self.rows.items() if key in wanted}
        for table, keys in self.tables.items():
            kept = [key for key in keys if key in self.rows]
            if kept != keys:
                self.tables[table] = kept
                self._write(table)
        return len(stale)

    def _write(self, table: str) -> None:
        rows = [self.rows[key] for key in self.tables[table]]
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        head = f'"table": "{table}", "sha256": "{_digest(rows)}"'
        replace(self.folder / f"{table}.json", f'{{{head}, "rows": [\n{lines}\n]}}\n'.encode())


def _digest(rows: list[Row]) -> str:
    """Return a digest of the rows: an edited number is noticed."""
    return digest(json.dumps(rows).encode())
