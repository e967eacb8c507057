"""The protocols under which layers are compared: tasks, the lengths to learn from, and those to test.

A layer learns from labels after every token, short sequences first; where a published protocol labels
the whole sequence alone, this makes it easier for all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from csprop.errors import InputError
from csprop.tasks import Task, get
from csprop_lab.study.texts import read_numbers
from csprop_lab.study.unseen import unseen_tasks

CSPROP = "csprop"
"""The name of csprop's own row: the preset that suits the task, locked and proven."""

TRACKER = "csprop-tracker"
"""csprop's layer on the same terms as all others; its machine is read off and proven afterwards."""
MERGING = "csprop-learn"
"""`csprop learn` on the sequences that the layers learn from: no network, no hint and no rate."""
OURS = {
    CSPROP: "the preset that suits the task, locked and proven",
    MERGING: "csprop learn: states merged, on the same sequences as the layers",
}
"""Rows that are not layers."""


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """Tasks that are learned and tested in the same way."""

    name: str
    title: str
    source: str
    """The authors, and where they proposed it."""
    tasks: tuple[str, ...]
    length: int
    """The longest sequences to learn from."""
    tested: tuple[int, ...]
    """Lengths to test."""
    hold_pairs: float = 0.0
    """As in a `Recipe`."""
    others: tuple[str, ...] = ()
    """Tasks with the same answers and other sequences, to be tested, too."""
    follow: float = 0.0
    """A length is tested only if the accuracy at the one before it is at least this."""
    rows: int = 0
    """Rows of a user's file, where the tasks are languages of languages.py; 0 if they are tasks."""
    wrong: float = 0.0
    """The share of wrong labels in such a file."""

    def lengths(self, task: str, longest: int) -> tuple[int, ...]:
        """The lengths to test: where a task has no sequences of one, the next that it has."""
        return tuple(length_of(task, each) for each in self.tested if each <= longest)

    def longest(self, task: str) -> int:
        """The longest sequences of a task to learn from."""
        return length_of(task, self.length)


@dataclass(frozen=True, kw_only=True)
class Effort:
    """The effort for a layer: the same for all, and fixed before any length is tested."""

    seeds: int
    rates: tuple[float, ...]
    """Learning rates of Adam to choose from, by held-out sequences."""
    epochs: int
    samples: int
    """Sequences; a fifth of them are held out."""
    batch_size: int = 16
    width: int = 64
    depth: int = 2
    tasks: int | None = None
    """The number of tasks of each protocol, the first ones; None for all."""
    longest: int = 1 << 20
    """The longest sequences to test."""

    @property
    def steps(self) -> int:
        """The steps of a run."""
        return self.epochs * -(-self.samples * 4 // (5 * self.batch_size))


FULL = Effort(seeds=5, rates=(0.002, 0.006), epochs=6, samples=1600)
QUICK = Effort(seeds=1, rates=(0.003,), epochs=4, samples=500, tasks=1, longest=256)


@cache
def find_task(task: str) -> Task:
    """Return a built-in task, some of which are large, or one of `unseen.py`."""
    return unseen_tasks().get(task) or get(task)


def length_of(task: str, length: int) -> int:
    """The first length from this one on at which a task has sequences."""
    return find_task(task).length_from(length)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


PROTOCOLS = {
    each["name"]: Protocol(**{name: _frozen(value) for name, value in each.items()})
    for each in read_numbers("protocols.json")
}
"""By the name that `csprop compare --protocol` takes."""
TABLED = tuple(name for name, each in PROTOCOLS.items() if not each.rows and name != "unseen")
"""Those of the table in results/compare: all but the files, and what results/unseen has."""


def choose_protocols(names: Sequence[str], tasks: Sequence[str] | None) -> list[Protocol]:
    """Return protocols by their names, each once, and check that they have the tasks."""
    for name in names:
        if name not in PROTOCOLS:
            raise InputError(f"there is no protocol {name!r}: choose from {', '.join(PROTOCOLS)}")
    found = [PROTOCOLS[name] for name in dict.fromkeys(names)]
    for task in tasks or ():
        if not any(task in each.tasks for each in found):
            there = ", ".join(dict.fromkeys(task for each in found for task in each.tasks))
            raise InputError(f"there is no task {task!r} in {', '.join(names)}: choose from {there}")
    return found
