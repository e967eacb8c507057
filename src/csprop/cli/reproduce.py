"""`csprop reproduce`: every table and figure of the paper, with its numbers beside ours."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import arg

from csprop.cli import common
from csprop.errors import InputError


@dataclass(frozen=True)
class Args:
    """Run every table and figure of the paper, and more; write the rows and a report.

    Rows that are there already are not run again, so that an interrupted command can be repeated.
    """

    quick: common.Flag = False
    """Three seeds and a few epochs: all of it in minutes, and the report says so."""

    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """Where the rows and the report go. Default: results, or runs/quick with --quick."""

    only: Annotated[str | None, arg(metavar="TABLES")] = None
    """Only some of the tables, such as main,length."""

    workers: Annotated[int | None, arg(metavar="N")] = None
    """How many processes share the work. Default: one for each core."""

    engine: Literal["local", "ray"] = "local"
    """Processes of this machine, or a Ray cluster."""

    address: Annotated[str | None, arg(metavar="HOST:PORT")] = None
    """The address of a running Ray cluster, such as 10.0.0.1:6379. Default: one is started here."""

    json: common.Flag = False
    """One JSON document on stdout."""


def parse(argv: list[str]) -> Args:
    return common.parse(Args, "reproduce", argv)


def run(args: Args) -> int:
    from csprop.files import one_writer, replace
    from csprop.report.study import PAGE, page
    from csprop.study import reproduce
    from csprop.study.publish import publish
    from csprop.study.results import STALE, Results
    from csprop.study.table import FULL, QUICK

    if args.workers is not None and not 1 <= args.workers <= 1024:
        raise InputError(f"--workers {args.workers}: write 1 to 1024")
    if args.address is not None and args.engine != "ray":
        raise InputError("--address is that of a Ray cluster: add --engine ray")
    if args.workers is not None and args.engine == "ray":
        raise InputError("--workers are processes of this machine: leave it out with --engine ray")
    budget = QUICK if args.quick else FULL
    tables = _chosen(args.only, reproduce.TABLES)
    out = args.out or Path("runs/quick" if args.quick else "results")
    with one_writer(out):
        results = Results(out)
        if stale := results.set_aside(reproduce.wanted(FULL, QUICK)):
            common.say(f"{out}: {stale} rows that no table asks for any more were moved to {STALE}")
        if others := results.rows.keys() - reproduce.wanted(budget):
            kind = "full study" if args.quick else "quick run"
            raise InputError(f"{out}: holds {len(others)} rows of a {kind}: choose another --out")
        work = reproduce.missing(results, budget, tables)
        total = sum(len(jobs) for _, jobs in work)
        common.say(f"{out}: {len(results.rows)} rows are there, {total} are to be run")
        on = _engine(args, reproduce.unfinished(results))
        reproduce.run(results, work, on, _progress(total, _labels(tables, budget)))
        path = publish(results, budget, reproduce.TABLES)
        replace(out / PAGE, page(results, budget, reproduce.TABLES).encode())
    if args.json:
        written = {"report": str(path), "page": str(out / PAGE)}
        common.show_json(written | {"rows": len(results.rows), "ran": total})
    else:
        print(
            f"{path}: {len(results.rows)} rows in tables and figures, with the paper's numbers beside"
        )
        print(f"{out / PAGE}: the same as a page for the browser")
    return 0


def _engine(args: Args, unfinished: Path) -> Any:
    from csprop.study import engine
    from csprop.training.workers import cores

    if args.engine == "ray":
        return lambda work: engine.ray(work, args.address)
    return lambda work: engine.local(work, args.workers or cores(), unfinished)


def _progress(total: int, labels: dict[str, str]) -> Callable[[str, list[Any]], None]:
    """Print a line for each group of rows, with the minutes so far and an estimate of those left."""
    started, finished = time.perf_counter(), 0

    def done(table: str, rows: list[Any]) -> None:
        nonlocal finished
        finished += len(rows)
        minutes = (time.perf_counter() - started) / 60
        left = minutes * (total - finished) / finished
        pace = f", about {left:.0f} to go" if 0.1 * total < finished < total else ""
        what = f"{table}: {labels[rows[0]['key']]}, {len(rows)} seeds"
        common.say(f"{finished:>4}/{total}  {minutes:.1f} min{pace}  {what}")

    return done


def _labels(tables: Any, budget: Any) -> dict[str, str]:
    """A name for each row by its key: its label in the first table that asks for it."""
    names: dict[str, str] = {}
    for table in tables:
        for label, jobs in table.jobs(budget).items():
            for job in jobs:
                names.setdefault(job.key, ", ".join(label))
    return names


def _chosen(names: str | None, tables: Any) -> Any:
    if names is None:
        return tables
    known = {table.name: table for table in tables}
    for name in names.split(","):
        if name not in known:
            raise InputError(f"--only {names!r}: there is no table {name!r}: write {', '.join(known)}")
    return [known[name] for name in names.split(",")]
