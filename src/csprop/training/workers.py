"""Processes that share work on one machine."""

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
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def pool(workers: int, hint: str) -> Iterator[ProcessPoolExecutor]:
    """Worker processes that end with this one; `hint` says what to do where one is killed."""
    with ProcessPoolExecutor(workers, get_context("spawn"), _become_worker) as executor:
        try:
            yield executor
        except BrokenProcessPool:
            raise InputError(
                f"a worker process was killed, for want of memory perhaps: {hint}"
            ) from None
        except BaseException:
            for process in active_children():
                process.kill()
            raise


def _become_worker() -> None:
    """Leave Ctrl-C to the first process, and die with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError, AttributeError):  # Linux alone
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
