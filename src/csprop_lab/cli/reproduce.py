"""`csprop reproduce`: every table and figure of the paper, next to the paper's numbers."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from csprop.cli import common
from csprop.cli.options import Arg
from csprop.errors import InputError, require
from csprop_lab.cli.where import Where, choose, engine


@dataclass(frozen=True)
class Args(Where):
    """Reproduce every table and figure of the paper, and write a report.

    Finished rows are not run again: repeat an interrupted command to continue.

    Examples:
        csprop reproduce --quick
        csprop reproduce --only main,length
    """

    quick: common.Flag = False
    """Take minutes: three seeds and few epochs. The report says so."""

    out: Annotated[Path | None, Arg("DIR", "(default: results; with --quick, runs/quick)")] = None
    """Directory for the rows and the report."""

    only: Annotated[str | None, Arg("TABLES", "(default: all)")] = None
    """Tables to make, such as main,length."""


def run(args: Args) -> int:
    run_jobs = engine(args)
    require("matplotlib", "figures", "the report has figures, and")
    from csprop.files import one_writer
    from csprop_lab.study import reproduce
    from csprop_lab.study.publish import publish
    from csprop_lab.study.results import STALE, Results
    from csprop_lab.study.table import FULL, QUICK

    budget = QUICK if args.quick else FULL
    known = {table.name: table for table in reproduce.TABLES}
    tables = [known[name] for name in choose(args.only, "table", known) or known]
    out = args.out or Path("runs/quick" if args.quick else "results")
    with one_writer(out):
        results = Results(out)
        if stale := results.set_aside(reproduce.wanted(FULL, QUICK)):
            common.say(f"{out}: {stale} rows that no table asks for any more are moved to {STALE}")
        if others := results.rows.keys() - reproduce.wanted(budget):
            kind = "full" if args.quick else "quick"
            raise InputError(f"{out}: has {len(others)} rows of a {kind} study: choose another --out")
        work = reproduce.missing(results, budget, tables)
        total = sum(len(jobs) for _, jobs in work)
        common.say(f"{out}: {len(results.rows)} rows exist, {total} remain to be run")
        on = run_jobs(reproduce.unfinished(results))
        reproduce.run(results, work, on, _progress(total, _labels(tables, budget)))
        path = publish(results, budget, reproduce.TABLES)
    if args.json:
        common.show_json({"report": str(path), "rows": len(results.rows), "ran": total})
    else:
        print(f"{path}: the report on {len(results.rows)} rows, next to the paper's numbers")
    return 0


def _progress(total: int, labels: dict[str, str]) -> Callable[[str, list[Any]], None]:
    """A callback that prints a line for each group of rows, with elapsed and estimated minutes."""
    started, finished = time.perf_counter(), 0

    def done(table: str, rows: list[Any]) -> None:
        nonlocal finished
        finished += len(rows)
        minutes = (time.perf_counter() - started) / 60
        left = minutes * (total - finished) / finished
        pace = f", about {left:.0f} left" if 0.1 * total < finished < total else ""
        what = f"{table}: {labels[rows[0]['key']]}, {len(rows)} row{'s' if len(rows) > 1 else ''}"
        common.say(f"{finished:>4}/{total}  {minutes:.1f} min{pace}  {what}")

    return done


def _labels(tables: Any, budget: Any) -> dict[str, str]:
    """The label of each row in the first table that uses it, by the row's key."""
    names: dict[str, str] = {}
    for table in tables:
        for label, jobs in table.jobs(budget).items():
            for job in jobs:
                names.setdefault(job.key, ", ".join(label))
    return names
