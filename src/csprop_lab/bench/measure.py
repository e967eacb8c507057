"""Clocks and memory. What is compared is measured in turn, round after round: a moment in which the
machine is slow affects all alike."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from csprop.training.workers import keep_freed_memory

Work = Callable[[], object]
Times = dict[str, list[float]]
"""Seconds of each work, as often as it was measured."""
ALLOCATORS = ("as the C library has it", "glibc, which keeps freed memory (as csprop train asks it to)")


class Pace(NamedTuple):
    """The duration of a measurement."""

    seconds: float
    """The duration, about."""
    rounds: int
    """The least number of rounds."""


QUICK, FULL = Pace(1.0, 1), Pace(15.0, 5)


def settle() -> str:
    """Set what everything that is measured in this process shares: one thread, and one allocator.

    Freed memory is kept: glibc otherwise returns it to the system and gets it back page by page, which
    slows torch's models, which allocate much in every step, more than csprop's.
    """
    torch.set_num_threads(1)
    return ALLOCATORS[keep_freed_memory()]


def measure_in_turn(works: Mapping[str, Work], pace: Pace, most: int = 1000) -> Times:
    """Measure works over rounds in which all take their turn.

    A work that takes less than 20 ms is repeated within a round, so it has enough samples
    beside a slow one, too.
    """
    repeats = {name: max(1, min(20, int(0.02 / _warm(work)))) for name, work in works.items()}
    times: Times = {name: [] for name in works}
    started = time.perf_counter()
    rounds = 0
    while rounds < pace.rounds or (time.perf_counter() - started < pace.seconds and rounds < most):
        rounds += 1
        for name, work in works.items():
            times[name] += [measure_seconds(work) for _ in range(repeats[name])]
    return times


def measure_seconds(work: Work) -> float:
    """The seconds that a work takes."""
    before = time.perf_counter()
    work()
    return time.perf_counter() - before


def _warm(work: Work) -> float:
    """Estimate the seconds of a work by its second run; a slow work runs only once."""
    first = measure_seconds(work)
    return first if first > 0.1 else measure_seconds(work)


def figures(times: Times, scale: float = 1.0) -> dict[str, Any]:
    """The medians of times, and between which two values the middle half of them lies."""
    return {
        "seconds": {name: scale * statistics.median(each) for name, each in times.items()},
        "quartiles": {name: [scale * end for end in _quartiles(each)] for name, each in times.items()},
    }


def _quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def peak_bytes(name: str, batch: int, length: int) -> int | None:
    """The peak memory of a training step, beyond what the process held after a small first one.

    It is measured in a process of its own, and is None where the system does not tell (Linux does).
    """
    code = (
        "import sys\n"
        "from csprop_lab.bench import measure, steps\n"
        "measure.settle()\n"
        "name, batch, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])\n"
        "steps.training_step(name, steps.configure_printed(batch, 16))()\n"
        "step = steps.training_step(name, steps.configure_printed(batch, length))\n"
        "before = measure.status('VmRSS')\n"
        "step()\n"
        "print(measure.status('VmHWM') - before)\n"
    )
    command = [sys.executable, "-c", code, name, str(batch), str(length)]
    if not Path("/proc/self/status").exists():
        return None
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def status(field: str) -> int:
    """A field of /proc/self/status, in bytes."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith(field))
    return int(line.split()[1]) * 1024
