"""Worker processes on one machine, and what this process asks of the system."""

import ctypes
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import active_children, get_context

from csprop.errors import InputError


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def pool(workers: int, hint: str) -> Iterator[ProcessPoolExecutor]:
    """Start worker processes that end with this one.

    Args:
        workers: the number of processes.
        hint: what to do if a worker is killed, for the error message.

    Raises:
        InputError: a worker was killed.
    """
    with ProcessPoolExecutor(workers, get_context("spawn"), _become_worker) as executor:
        try:
            yield executor
        except BrokenProcessPool:
            raise InputError(
                f"a worker process was killed, perhaps because memory ran out: {hint}"
            ) from None
        except BaseException:
            for process in active_children():
                process.kill()
            raise


def keep_freed_memory() -> bool:
    """Ask the C library to keep the memory that a training step frees for the next step.

    Otherwise it returns large blocks to the system after each step and gets them back page by page.

    Returns:
        True if it does; only glibc can be asked.
    """
    with suppress(OSError, AttributeError, TypeError):  # not glibc, or Windows
        mallopt, trim_threshold, mmap_threshold = ctypes.CDLL(None).mallopt, -1, -3
        return bool(mallopt(trim_threshold, 1 << 29) and mallopt(mmap_threshold, 1 << 25))
    return False


def check_torchrun() -> None:
    """Raise an InputError unless torchrun has started this process."""
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys():
        raise InputError(
            "distributed training needs processes that torchrun starts: write torchrun "
            "--nproc-per-node 2 -m csprop train … --distributed, or torchrun --nproc-per-node 2 SCRIPT"
        )


def _become_worker() -> None:
    """Leave Ctrl-C to the parent process, and end when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError, AttributeError, TypeError):  # Linux alone
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
