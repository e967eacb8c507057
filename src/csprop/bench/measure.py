"""Clocks and memory. Everything that is compared is measured in turn, round after round, so that a slow
moment of the machine falls on all alike."""

import statistics
import time
from collections.abc import Callable, Mapping

import torch

Work = Callable[[], object]


def interleaved(works: Mapping[str, Work], seconds: float, most: int = 200) -> dict[str, float]:
    """The median seconds of each, over rounds of all for about so long: three rounds at least.

    A piece of work that alone would fill its time many times over runs in every round all the same.
    """
    for work in works.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in works}
    started = time.perf_counter()
    while len(rounds := next(iter(times.values()))) < 3 or (
        time.perf_counter() - started < seconds and len(rounds) < most
    ):
        for name, work in works.items():
            before = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - before)
    return {name: statistics.median(each) for name, each in times.items()}


def peak_bytes(work: Work) -> int | None:
    """How much memory the process came to hold beyond what it had, while at work; None where the system
    does not tell (Linux does)."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # begin a new peak
        before = _status("VmRSS")
        work()
        return max(0, _status("VmHWM") - before)
    except OSError:
        return None


def _status(field: str) -> int:
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith(field))
    return int(line.split()[1]) * 1024


def one_thread() -> None:
    torch.set_num_threads(1)
