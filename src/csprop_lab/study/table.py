"""A table of the study: the jobs that it asks for, and the text and figure made of their rows."""

import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from csprop.tasks import get
from csprop.training.scores import percent
from csprop_lab.study.job import AnyJob
from csprop_lab.study.measure import Row

Label = tuple[str, ...]
"""The place of a cell in a table, such as task and preset."""
Rows = Mapping[Label, Sequence[Row]]
"""The rows of each label, one for each seed or language."""


@dataclass(frozen=True)
class Budget:
    """The size of a study: `FULL`, or `QUICK`, a run in minutes whose numbers mean little."""

    seeds: int
    """Seeds and epochs of the main table."""
    epochs: int
    few_seeds: int
    """Seeds, epochs and samples of the other tables."""
    few_epochs: int
    few_samples: int
    """0 stands for the paper's number."""
    longest: int
    """The longest sequences to test."""


FULL = Budget(seeds=10, epochs=300, few_seeds=5, few_epochs=30, few_samples=0, longest=1 << 20)
QUICK = Budget(seeds=3, epochs=3, few_seeds=3, few_epochs=1, few_samples=2000, longest=1024)

HOLD = 10
"""Training ends early once the held-out accuracy has been 100% for this many epochs."""

TASKS = ("parity", "mod3", "mod3-residue", "parenthesis")
PAPER_TASKS = ("parity", "mod3", "parenthesis")
"""The tasks that the paper reports; the residue is its Mod-3 read in another way."""


class Table(ABC):
    """One table or figure of the study."""

    name: str
    """Its files are results/NAME.json and results/NAME.png."""
    title: str

    @abstractmethod
    def jobs(self, budget: Budget) -> Mapping[Label, Sequence[AnyJob]]:
        """The jobs whose rows it shows, by label, one for each seed or language."""

    @abstractmethod
    def text(self, rows: Rows, budget: Budget) -> str:
        """Its section of the report, in Markdown, with what the paper says beside our numbers."""


class Figured(Table):
    """A table with a figure beside it."""

    @abstractmethod
    def figure(self, rows: Rows) -> Any:
        """The figure, as a matplotlib Figure."""


def reached(rows: Sequence[Row]) -> list[int]:
    """The first epoch with a held-out accuracy of 100%, of the seeds that reached it."""
    firsts = (row["result"]["first_epoch_at_target"] for row in rows if "result" in row)
    return [first for first in firsts if first is not None]


def values(rows: Sequence[Row], name: str) -> list[float]:
    """One number of each seed's result; 0 for a seed that diverged."""
    return [row["result"][name] if "result" in row else 0.0 for row in rows]


def exact(rows: Sequence[Row]) -> list[int]:
    """Return each seed's errors on the 65,536 inputs of length 16; all, if it diverged."""
    return [row["result"]["exhaustive"]["wrong"] if "result" in row else 1 << 16 for row in rows]


def proven(rows: Sequence[Row]) -> str:
    """Return the number of seeds that are proven once locked."""
    found = [row for row in rows if row.get("locked", {}).get("proven")]
    return f"{len(found)} of {len(rows)}"


def decimal(value: float) -> str:
    """An F1 score. It reads 1.000 only if it is 1."""
    return "1.000" if value == 1 else f"{min(value, 0.999):.3f}"


def median_and_worst(numbers: Sequence[float], show: Callable[[float], str] = percent) -> str:
    """The median of some accuracies or scores, and in brackets the worst, where it differs."""
    if not numbers:
        return "–"
    middle, worst = statistics.median(numbers), min(numbers)
    return show(middle) if middle == worst else f"{show(middle)} ({show(worst)})"


def metric(task: str) -> str:
    """Return the paper's measure for a task: accuracy or f1."""
    return get(task).metric


def score(rows: Sequence[Row]) -> str:
    """Return the paper's measure for their task: the median seed, and the worst."""
    name = metric(rows[0]["job"]["task"])
    return median_and_worst(values(rows, name), decimal if name == "f1" else percent)


def column(task: str) -> str:
    """The heading of a column of such scores."""
    return f"{task}, F1" if metric(task) == "f1" else task
