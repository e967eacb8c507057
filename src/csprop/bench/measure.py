"""Clocks and memory. Everything that is compared is measured in turn, round after round, so that a slow
moment of the machine falls on all alike."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

Work = Callable[[], object]


def interleaved(works: Mapping[str, Work], seconds: float, most: int = 200) -> dict[str, float]:
    """The median seconds of each, over rounds of all for about so long: three rounds at least.

    What takes less than 20 ms is repeated within a round, so that a slow peer leaves it enough samples.
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
    """How much memory a peer's second training step comes to hold beyond what its process had after the
    first, small one, in a process of its own; None where the system does not tell (Linux does)."""
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
    """A line of Linux's account of this process, in bytes."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith(field))
    return int(line.split()[1]) * 1024


def one_thread() -> None:
    torch.set_num_threads(1)
