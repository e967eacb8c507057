"""REPORT.md, its figures and the README's blocks, made from the rows alone."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from csprop.files import replace
from csprop_lab.bench import summary as bench
from csprop_lab.study import compared, differences, released, why
from csprop_lab.study.layers import Layers
from csprop_lab.study.measure import Row
from csprop_lab.study.proven import Counters, Exact, Trained, Unhinted
from csprop_lab.study.results import Results
from csprop_lab.study.summary import caption, drift, phases, proofs, summary, task_table
from csprop_lab.study.table import FULL, Budget, Figured, Rows, Table
from csprop_lab.study.texts import words

REPORT = "REPORT.md"
METADATA = {"Software": None}
"""Leaves out of a figure's file when and with what it was made: the same rows give the same bytes."""
DOCUMENTS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "bench": ("bench", bench.summary),
    "speed": ("bench", bench.few),
    "why-costs": ("bench", why.costs),
    "why-steps": ("bench", why.steps),
    "drift": ("drift", caption),
    "phases": ("phases", phases),
}
"""Blocks that are made from a JSON file without rows: its name, and how."""


def rows_of(table: Table, results: Results, budget: Budget) -> Rows | None:
    """Return a table's rows by label; None if one is missing."""
    jobs = table.jobs(budget)
    if any(job.key not in results.rows for asked in jobs.values() for job in asked):
        return None
    return {label: [results.rows[job.key] for job in asked] for label, asked in jobs.items()}


def report(results: Results, budget: Budget, tables: Sequence[Table]) -> str:
    """The text of REPORT.md. A table with missing rows says so."""
    rows_by_table = {table.name: rows_of(table, results, budget) for table in tables}
    parts = ["# csprop beside the paper", _head(results, budget)]
    if budget is FULL:
        complete = {name: rows for name, rows in rows_by_table.items() if rows is not None}
        if "released" in complete:
            parts += ["## What makes it work", released.claim(complete["released"])]
        parts += ["## Where we differ, and why", differences.text(complete)]
    for table in tables:
        rows = rows_by_table[table.name]
        parts.append(f"## {table.title}")
        if rows is None:
            parts.append("Some of its rows have not been run yet: run the same command again.")
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
    quick = budget is not FULL
    return words(
        "head", mark=words("quick") + " " if quick else "", cost=_cost(results.rows),
        command="csprop reproduce" + " --quick" * quick, where="; ".join(where),
    )  # fmt: skip


def _cost(rows: Mapping[str, Row]) -> str:
    minutes = sum(row["seconds"] for row in rows.values()) / 60
    took = f"{minutes / 60:.2f} hours" if minutes > 30 else f"{minutes:.0f} minutes"
    return f"{len(rows):,} rows, {took} of one process."


def blocks(results: Results, budget: Budget, tables: Sequence[Table]) -> dict[str, str]:
    """The contents of the blocks in the README and the guides, by their names."""
    rows_by_table = {table.name: rows_of(table, results, budget) for table in tables}
    makers: dict[str, tuple[str, Callable[[Rows], str]]] = {
        "tasks": ("main", task_table), "main": ("main", summary),
        "length": ("length", drift), "exact": ("exact", Exact().table), "proofs": ("exact", proofs),
        "trained": ("trained", Trained().table), "tracker": ("tracker", Unhinted().table),
        "counters": ("counters", Counters().table), "layers": ("layers", Layers().table),
        "released": ("released", released.claim), **why.BY_TABLE,
    }  # fmt: skip
    made = {
        name: make(rows)
        for name, (table, make) in makers.items()
        if (rows := rows_by_table[table]) is not None
    }
    if (results.folder / compared.FOLDER).exists():
        made["compare"] = compared.full(results.folder).summary()
    if (results.folder / compared.UNSEEN).exists():
        made["unseen"] = compared.unseen(results.folder).summary()
    made["cost"] = _cost(results.rows).rstrip(".")
    for name, (file, make) in DOCUMENTS.items():
        path = results.folder / f"{file}.json"
        if path.exists():
            made[name] = make(json.loads(path.read_text()))
    return made


def publish(results: Results, budget: Budget, tables: Sequence[Table]) -> Path:
    """Write the report and its figures beside the rows, and say where the report is."""
    for table in tables:
        rows = rows_of(table, results, budget)
        if rows is not None and isinstance(table, Figured):
            picture = io.BytesIO()
            table.figure(rows).savefig(picture, dpi=110, metadata=METADATA)
            replace(results.folder / f"{table.name}.png", picture.getvalue())
    path = results.folder / REPORT
    replace(path, report(results, budget, tables).encode())
    return path
