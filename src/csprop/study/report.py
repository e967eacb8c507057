"""REPORT.md and the figures, made from the rows alone."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from csprop.bench import summary as bench
from csprop.files import replace
from csprop.study import differences
from csprop.study.exact import Exact
from csprop.study.measure import Row
from csprop.study.results import Results
from csprop.study.summary import caption, drift, summary, transcript
from csprop.study.table import FULL, Budget, Figured, Rows, Table

REPORT = "REPORT.md"
METADATA = {"Software": None}
"""A figure's file says nothing of when and by what it was made: the same rows, the same bytes."""
DOCUMENTS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "bench": ("bench", bench.summary),
    "drift": ("drift", caption),
    "certify-parity": ("certify", lambda found: transcript(found["certified"]["parity"])),
    "certify-A5": ("certify", lambda found: transcript(found["certified"]["group-A5"], EXCERPT)),
}
"""Blocks that are made of a file without rows: its name, and how."""
EXCERPT = ("states", "channels", "codes")


def rows_of(table: Table, results: Results, budget: Budget) -> Rows | None:
    """A table's rows by label, or nothing where one is missing."""
    jobs = table.jobs(budget)
    if any(job.key not in results.rows for asked in jobs.values() for job in asked):
        return None
    return {label: [results.rows[job.key] for job in asked] for label, asked in jobs.items()}


def report(results: Results, budget: Budget, tables: Sequence[Table]) -> str:
    """The whole of it, as Markdown."""
    found = {table.name: rows_of(table, results, budget) for table in tables}
    parts = ["# csprop beside the paper", _head(results, budget)]
    if budget is FULL:
        there = {name: rows for name, rows in found.items() if rows is not None}
        parts += ["## Where we differ, and why", differences.text(there)]
    for table in tables:
        rows = found[table.name]
        parts.append(f"## {table.title}")
        if rows is None:
            parts.append("Not all of its rows have been run; the same command goes on.")
            continue
        parts.append(table.text(rows, budget))
        if isinstance(table, Figured):
            parts.append(f"![{table.title}]({table.name}.png)")
        parts.append(_cost({row["key"]: row for asked in rows.values() for row in asked}))
    return "\n\n".join(parts) + "\n"


def _head(results: Results, budget: Budget) -> str:
    where = sorted(
        {
            "csprop {csprop}, torch {torch}, Python {python}, {cpu}, {backend} backend".format(
                **row["environment"]
            )
            for row in results.rows.values()
        }
    )
    mark = (
        ""
        if budget is FULL
        else "**A quick look: fewer seeds, epochs and sequences than this text says. Nothing here is a "
        "result.** "
    )
    command = "csprop reproduce" + ("" if budget is FULL else " --quick")
    return (
        f"{mark}Made by `{command}` from the JSON files beside this one, which have one row for each "
        'run. "The paper" is "State Propagation Also Satisfies" (Li and Yang). Preset `paper` is its '
        "printed model: width 64, 3 layers, Adam at 0.001, batches of 64, gradients clipped at norm "
        "1, the learning rate halved after 10 epochs without a better held-out accuracy, 5,000 "
        "sequences of length 16 (10,000 for parenthesis), a fifth held out; where the paper can be "
        "read in two ways, docs/paper.md says which reading this is. Split `paper` deals out rows; "
        "`disjoint` keeps a sequence from standing on both sides. The held-out part also decides "
        "which epoch is kept. Preset `rotor` turns the state, in one layer of 32 channels with gates "
        "of 0 or 1, and for parenthesis adds, in two; it learns from a label at every step, with "
        f"Adam at 0.01, for up to 100 epochs.\n\n{_cost(results.rows)} {'; '.join(where)}; one thread "
        "a process."
    )


def _cost(rows: Mapping[str, Row]) -> str:
    minutes = sum(row["seconds"] for row in rows.values()) / 60
    took = f"{minutes / 60:.2f} hours" if minutes > 30 else f"{minutes:.0f} minutes"
    return f"{len(rows)} rows, {took} of one process."


def blocks(results: Results, budget: Budget, tables: Sequence[Table]) -> dict[str, str]:
    """What stands in the README and the guides too: of the rows, and of the documents beside them."""
    found = {table.name: rows_of(table, results, budget) for table in tables}
    makers = {"main": summary, "length": drift, "exact": Exact().table}
    made = {name: make(rows) for name, make in makers.items() if (rows := found[name]) is not None}
    made["cost"] = _cost(results.rows).rstrip(".")
    for name, (file, make) in DOCUMENTS.items():
        path = results.folder / f"{file}.json"
        if path.exists():
            made[name] = make(json.loads(path.read_text()))
    return made


def publish(results: Results, budget: Budget, tables: Sequence[Table]) -> Path:
    """Write the report and its figures beside the rows."""
    for table in tables:
        rows = rows_of(table, results, budget)
        if rows is not None and isinstance(table, Figured):
            picture = io.BytesIO()
            table.figure(rows).savefig(picture, dpi=110, metadata=METADATA)
            replace(results.folder / f"{table.name}.png", picture.getvalue())
    path = results.folder / REPORT
    replace(path, report(results, budget, tables).encode())
    return path
