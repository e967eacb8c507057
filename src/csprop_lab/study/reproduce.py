"""All tables of the study, and the rows that are still missing from them."""

import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path

from csprop_lab.study import engine
from csprop_lab.study.baselines import Baselines
from csprop_lab.study.bliss_table import Bliss
from csprop_lab.study.grids import Decoders, Focal, Structure
from csprop_lab.study.grokking import Grokking
from csprop_lab.study.layers import Layers
from csprop_lab.study.length import Length
from csprop_lab.study.main import Main
from csprop_lab.study.measure import Row
from csprop_lab.study.own_data import OwnData
from csprop_lab.study.proven import Counters, Exact, Trained, Unhinted
from csprop_lab.study.readme import Readme
from csprop_lab.study.released import Released
from csprop_lab.study.results import Results
from csprop_lab.study.table import Budget, Table

TABLES: tuple[Table, ...] = (
    Main(), Released(), Readme(), Grokking(), Length(), Trained(), Exact(), Unhinted(), Counters(),
    Structure(), Focal(), Decoders(), Baselines(), OwnData(), Bliss(), Layers(),
)  # fmt: skip

Engine = Callable[[Sequence[engine.Group]], Generator[tuple[str, list[Row]]]]


def missing(results: Results, budget: Budget, tables: Sequence[Table]) -> list[engine.Group]:
    """The jobs without a row, each once: under the first table that asks for it."""
    asked: set[str] = set()
    work: list[engine.Group] = []
    for table in tables:
        jobs = [job for jobs in table.jobs(budget).values() for job in jobs]
        left = [job for job in jobs if job.key not in results.rows and job.key not in asked]
        asked |= {job.key for job in left}
        work += engine.groups(table.name, left)
    return work


def wanted(*budgets: Budget) -> set[str]:
    """The keys of all rows that these budgets ask for."""
    return {
        job.key
        for budget in budgets
        for table in TABLES
        for jobs in table.jobs(budget).values()
        for job in jobs
    }


def run(
    results: Results, work: Sequence[engine.Group], on: Engine, done: Callable[[str, list[Row]], None]
) -> None:
    """Run groups of jobs, and write the rows of each as soon as they are there."""
    with closing(on(work)) as finished:
        for table, rows in finished:
            results.add(table, rows)
            for row in rows:
                shutil.rmtree(unfinished(results) / row["key"], ignore_errors=True)
            done(table, rows)


def unfinished(results: Results) -> Path:
    """The folder of runs in training, which have no row yet."""
    return results.folder / "unfinished"
