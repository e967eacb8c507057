"""Clocks and memory. What is compared is measured in turn, round after round, so that a moment in which
the machine is slow affects all alike."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

Work = Callable[[], object]


def interleaved(works: Mapping[str, Work], seconds: float, most: int = 200) -> dict[str, float]:
    """The median seconds of each work, over rounds in which all take their turn.

    A work that takes less than 20 ms is repeated within a round, so that it has enough samples also
    beside a slow one.

    Args:
        seconds: how long to go on, about; there are at least three rounds.
        most: rounds.
    """
    repeats = {}
    for name, work in works.items():
        work()
        before = time.perf_counter()
        work()
        repeats[name] = max(1, min(20, int(0.02 / (time.perf_counter() - before))))
    times: dict[str, list[float]] = {name: [] for name in works}
    started = time.perf_counter()
    rounds = 0
    while rounds < 3 or (time.perf_counter() - started < seconds and rounds < most):
        rounds += 1
        for name, work in works.items():
            for _ in range(repeats[name]):
                before = time.perf_counter()
                work()
                times[name].append(time.perf_counter() - before)
    return {name: statistics.median(each) for name, each in times.items()}


def peak_bytes(name: str, batch: int, steps: int) -> int | None:
    """The peak memory of a training step, beyond what the process held after a small first one.

    It is measured in a process of its own, and is None where the system does not tell (Linux does).
    """
    code = (
        "import sys\n"
        "from csprop.bench import measure, peers\n"
        "measure.one_thread()\n"
        "name, batch, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])\n"
        "peers.training_step(name, batch, 16)()\n"
        "before = measure.status('VmRSS')\n"
        "peers.training_step(name, batch, steps)()\n"
        "print(measure.status('VmHWM') - before)\n"
    )
    command = [sys.executable, "-c", code, name, str(batch), str(steps)]
    if not Path("/proc/self/status").exists():
        return None
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def status(field: str) -> int:
    """A field of /proc/self/status, in bytes."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith(field))
    return int(line.split()[1]) * 1024


def one_thread() -> None:
    """Use one thread from here on."""
    torch.set_num_threads(1)
