"""Where jobs run: worker processes here, or a Ray cluster."""

import os
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from typing import Any

from csprop.errors import InputError
from csprop.study.job import Job
from csprop.study.measure import Row, measure
from csprop.training.workers import pool

Group = tuple[str, list[Job]]
"""The table that asks, and jobs that differ in their seed alone."""

TOGETHER = 5
"""Seeds trained in one computation: few enough that workers end at about the same time."""

RETRIES = 5
"""How often what a lost Ray worker had is given to another one."""


def groups(table: str, jobs: Sequence[Job]) -> list[Group]:
    alike: dict[str, list[Job]] = {}
    for job in jobs:
        alike.setdefault(job.group, []).append(job)
    return [
        (table, same[start : start + TOGETHER])
        for same in alike.values()
        for start in range(0, len(same), TOGETHER)
    ]


def local(work: Sequence[Group], workers: int) -> Iterator[tuple[str, list[Row]]]:
    """In processes of this machine, or in this one if one is enough."""
    if min(workers, len(work)) <= 1:
        for table, jobs in work:
            yield table, measure(jobs)
        return
    with pool(min(workers, len(work)), "the same command goes on with what is left") as executor:
        waiting = {executor.submit(_one_thread, jobs): table for table, jobs in work}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def ray(work: Sequence[Group], address: str | None) -> Iterator[tuple[str, list[Row]]]:
    """On a Ray cluster: what a lost worker had is run again by another one."""
    try:
        import ray as cluster  # pyright: ignore[reportMissingImports]
        from ray.exceptions import NodeDiedError, WorkerCrashedError  # pyright: ignore
    except ImportError:
        raise InputError("--engine ray needs ray: pip install 'csprop[ray]'") from None
    here = not cluster.is_initialized()
    if here:
        if address is not None:
            _knock(address)
        cluster.init(address=address, log_to_driver=False, configure_logging=False)
    remote: Any = cluster.remote(num_cpus=1, max_retries=RETRIES)(_one_thread)
    waiting = {remote.remote(jobs): table for table, jobs in work}
    try:
        while waiting:
            (done, *_), _ = cluster.wait(list(waiting), num_returns=1)
            yield waiting.pop(done), cluster.get(done)
    except (WorkerCrashedError, NodeDiedError):
        raise InputError(
            f"{RETRIES + 1} workers died of the same rows, for want of memory perhaps: the same "
            "command goes on with what is left"
        ) from None
    finally:
        if here:
            cluster.shutdown()


def _knock(address: str) -> None:
    """Ray itself would wait for minutes where nobody answers."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, ValueError):
        raise InputError(
            f"--address {address}: no Ray cluster answers there: write it as in 10.0.0.1:6379"
        ) from None


def _one_thread(jobs: list[Job]) -> list[Row]:
    """Models this small gain little from a second thread, and cores are shared."""
    import torch

    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    return measure(jobs)
