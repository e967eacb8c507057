"""The places where jobs run: worker processes here, or a Ray cluster."""

import socket
from collections.abc import Generator, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import torch

from csprop.errors import InputError
from csprop.training.workers import pool
from csprop_lab.study.job import AnyJob
from csprop_lab.study.measure import Row, measure

Group = tuple[str, Sequence[AnyJob]]
"""The name of the table that asks for them, and jobs that are measured together."""

TOGETHER = 5
"""Jobs that a worker measures together, such as seeds trained in one computation: few enough that the
workers finish at about the same time."""

RETRIES = 5
"""The number of times that the work of a lost Ray worker is given to another one."""


def groups(table: str, jobs: Sequence[AnyJob]) -> list[Group]:
    """Jobs in groups that are measured together."""
    alike: dict[str, list[AnyJob]] = {}
    for job in jobs:
        alike.setdefault(job.group, []).append(job)
    return [
        (table, same[start : start + TOGETHER])
        for same in alike.values()
        for start in range(0, len(same), TOGETHER)
    ]


def local(work: Sequence[Group], workers: int, unfinished: Path) -> Generator[tuple[str, list[Row]]]:
    """Run groups in processes of this machine, and yield the table and the rows of each that finished.

    Interrupted runs are resumed from the folder `unfinished`. The first failure of a group is raised
    once all others have finished.
    """
    if not work:
        return
    failures: list[Exception] = []
    with pool(min(workers, len(work)), "run the same command again to finish the rest") as executor:
        waiting = {executor.submit(_one_thread, jobs, unfinished): table for table, jobs in work}
        for done in as_completed(waiting):
            try:
                rows = done.result()
            except BrokenProcessPool:
                raise
            except Exception as error:  # the others go on, and the first failure is raised at the end
                failures.append(error)
            else:
                yield waiting[done], rows
    if failures:
        raise failures[0]


def ray(work: Sequence[Group], address: str | None) -> Generator[tuple[str, list[Row]]]:
    """Run groups on a Ray cluster, where the work of a lost worker is given to another one.

    Args:
        address: HOST:PORT of a running cluster; None starts one here.
    """
    try:
        import ray as cluster  # pyright: ignore[reportMissingImports]
        from ray.exceptions import RayError  # pyright: ignore
    except ImportError:
        raise InputError("--engine ray needs ray: pip install 'csprop-lab[ray]'") from None
    here = not cluster.is_initialized()
    if here:
        if address is not None:
            _knock(address)
        try:
            cluster.init(address=address or "local", log_to_driver=False, configure_logging=False)
        except ConnectionError:
            raise InputError(f"--address {address}: what answers there is not a Ray cluster") from None
    remote: Any = cluster.remote(num_cpus=1, max_retries=RETRIES)(_one_thread)
    waiting = {remote.remote(jobs): table for table, jobs in work}
    try:
        while waiting:
            (done, *_), _ = cluster.wait(list(waiting), num_returns=1)
            yield waiting.pop(done), cluster.get(done)
    except RayError as error:
        reason = str(error).strip().splitlines()[-1]
        raise InputError(
            f"a group of rows failed on {RETRIES + 1} workers, the last time with: {reason}; run the "
            "same command again to finish the rest"
        ) from None
    finally:
        if here:
            cluster.shutdown()


def _knock(address: str) -> None:
    """Refuse an address at which nothing answers; Ray itself would wait for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, ValueError):
        raise InputError(
            f"--address {address}: no Ray cluster answers there: write it like 10.0.0.1:6379"
        ) from None


def _one_thread(jobs: Sequence[AnyJob], unfinished: Path | None = None) -> list[Row]:
    """Measure on one thread: models this small gain little from a second, and the cores are shared."""
    torch.set_num_threads(1)
    return measure(jobs, unfinished)
