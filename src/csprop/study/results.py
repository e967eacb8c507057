"""The rows on disk: one JSON file a table, a line a row, found again by their keys."""

import json
from collections.abc import Iterable
from pathlib import Path

from csprop.errors import InputError
from csprop.study.job import Job
from csprop.study.measure import Row
from csprop.training.checkpoint import write


class Results:
    """A folder of rows. A row that was written stays, whatever happens later."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[str, Row] = {}
        self.tables: dict[str, list[str]] = {}
        for path in sorted(folder.glob("*.json")):
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            rows = json.loads(path.read_bytes())["rows"]
            keys = [(row["key"], Job.from_json(row["job"]).key) for row in rows]
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{path}: is not a table of results: remove it, to run it again") from None
        for stored, key in keys:
            if stored != key:
                raise InputError(f"{path}: row {stored} was changed: remove it, to run it again")
        self.rows |= {row["key"]: row for row in rows}
        self.tables[path.stem] = [row["key"] for row in rows]

    def add(self, table: str, rows: Iterable[Row]) -> None:
        """Keep new rows; one that is there already is not counted twice."""
        keys = self.tables.setdefault(table, [])
        for row in rows:
            if row["key"] not in self.rows:
                self.rows[row["key"]] = row
                keys.append(row["key"])
        self._write(table)

    def forget(self, wanted: set[str]) -> int:
        """Drop rows that no table asks for any more, and say how many."""
        stale = self.rows.keys() - wanted
        for key in stale:
            del self.rows[key]
        for table, keys in self.tables.items():
            kept = [key for key in keys if key in self.rows]
            if kept != keys:
                self.tables[table] = kept
                self._write(table)
        return len(stale)

    def _write(self, table: str) -> None:
        rows = (self.rows[key] for key in self.tables[table])
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        text = f'{{"table": "{table}", "rows": [\n{lines}\n]}}\n'
        write(self.folder / f"{table}.json", text.encode())
