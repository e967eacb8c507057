"""What every table of the study is: jobs to ask for, and text and a figure to make of their rows."""

import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from csprop.study.job import Job
from csprop.study.measure import Row

Label = tuple[str, ...]
"""Which line and column of a table."""
Rows = Mapping[Label, Sequence[Row]]
"""One row a seed, for each label."""


@dataclass(frozen=True)
class Budget:
    """How much is run; `QUICK` is a look at everything, marked as such."""

    seeds: int
    epochs: int
    few_seeds: int
    few_epochs: int
    few_samples: int
    """Of the tables beside the main one; 0 samples are the paper's number."""
    longest: int
    """Sequence to test."""


FULL = Budget(seeds=10, epochs=300, few_seeds=5, few_epochs=30, few_samples=0, longest=1 << 20)
QUICK = Budget(seeds=3, epochs=3, few_seeds=3, few_epochs=1, few_samples=2000, longest=1024)

HOLD = 10
"""Training ends early once the held-out accuracy has been 100% for so many epochs."""

TASKS = ("parity", "mod3", "mod3-residue", "parenthesis")
PAPER_TASKS = ("parity", "mod3", "parenthesis")


class Table(ABC):
    """One table or figure."""

    name: str
    """Also of its files: results/NAME.json, results/NAME.png."""
    title: str

    @abstractmethod
    def jobs(self, budget: Budget) -> dict[Label, list[Job]]:
        """What it needs, a job for each seed."""

    @abstractmethod
    def text(self, rows: Rows, budget: Budget) -> str:
        """Markdown, with what the paper says beside it."""


class Figured(Table):
    """A table with a figure beside it."""

    @abstractmethod
    def figure(self, rows: Rows) -> Any:
        """Of matplotlib."""


def reached(rows: Sequence[Row]) -> list[int]:
    """The first epoch at 100% held out, of the seeds that got there."""
    firsts = (row["result"]["first_epoch_at_target"] for row in rows if "result" in row)
    return [first for first in firsts if first is not None]


def values(rows: Sequence[Row], name: str) -> list[float]:
    """A number of each seed's result; of one that diverged 0, as if nothing were right."""
    return [row["result"][name] if "result" in row else 0.0 for row in rows]


def exact(rows: Sequence[Row]) -> list[int]:
    """Wrong answers over all inputs of length 16; all of them of a seed that diverged."""
    return [row["result"]["exhaustive"]["wrong"] if "result" in row else 1 << 16 for row in rows]


def decimal(value: float) -> str:
    """An F1; 1 only if it is."""
    return "1.000" if value == 1 else f"{min(value, 0.999):.3f}"


def percent(value: float) -> str:
    """100% only if it is."""
    return "100%" if value == 1 else f"{min(100 * value, 99.9):.1f}%"


def median_and_worst(numbers: Sequence[float], show: Callable[[float], str] = percent) -> str:
    """Of accuracies: all alike, or the median and the worst."""
    if not numbers:
        return "–"
    middle, worst = statistics.median(numbers), min(numbers)
    return show(middle) if middle == worst else f"{show(middle)} ({show(worst)})"


def markdown(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = ["---"] * len(headings)
    return "\n".join(f"| {' | '.join(line)} |" for line in (headings, rule, *lines))
