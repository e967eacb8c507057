"""Seeds to train, worker processes that share them, and requests to the system."""

import ctypes
import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing import active_children, get_context

from csprop.errors import InputError
from csprop.progress import Epoch

MOST_SEEDS = 10_000


def parse_seeds(text: str) -> list[int]:
    """Read a list of seeds, such as "0-9" or "0,3,5-7"."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part.strip())
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise InputError("write a range such as 0-9, or a list such as 0,3,5", "seeds", text)
        seeds.extend(islice(range(int(match[1]), int(match[2] or match[1]) + 1), MOST_SEEDS + 1))
    if len(seeds) > MOST_SEEDS:
        raise InputError(f"write at most {MOST_SEEDS:,} seeds", "seeds", text)
    return list(dict.fromkeys(seeds))


def label_seeds(name: str, seeds: Sequence[int]) -> str:
    """Return the label of a bar that shows one seed, or the worst of several."""
    parts: list[list[int]] = []
    for seed in seeds:
        if parts and seed == parts[-1][-1] + 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    ranges = (f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
    return f"{name} {'worst of' if len(seeds) > 1 else 'seed'} {','.join(ranges)}"


def worst_row(rows: Mapping[int, Epoch]) -> Epoch:
    """Return the row of the seed with the lowest accuracy."""
    return min(rows.values(), key=lambda row: row["accuracy"])


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def suggest_workers(seeds: int) -> int:
    """Return one process per core, with at least two seeds each: a process takes seconds to start."""
    return min(cores(), max(1, seeds // 2))


@contextmanager
def pool(workers: int, hint: str) -> Iterator[ProcessPoolExecutor]:
    """Start worker processes that end with this one; if one is killed, the error ends with `hint`."""
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


def _become_worker() -> None:
    """Leave Ctrl-C to the parent process, and end when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError, AttributeError, TypeError):  # Linux alone
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def keep_freed_memory() -> bool:
    """Ask the C library to keep the memory that a training step frees for the next step.

    Otherwise it returns large blocks to the system after each step and gets them back page by page.
    The result is False if it cannot be asked: only glibc can.
    """
    with suppress(OSError, AttributeError, TypeError):  # not glibc, or Windows
        mallopt, trim_threshold, mmap_threshold = ctypes.CDLL(None).mallopt, -1, -3
        return bool(mallopt(trim_threshold, 1 << 29) and mallopt(mmap_threshold, 1 << 25))
    return False
