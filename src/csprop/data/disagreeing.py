"""The rows of which some label is not the answer of a machine."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.data.examples import UNLABELLED, RowArrays


class Disagreement(NamedTuple):
    """A row, and its first label that a machine contradicts."""

    row: int
    """From 0 on."""
    step: int
    """The step that has the label, from 0 on."""
    answer: int
    """The class that the machine gives there."""


def find_disagreements(machine: Machine | CounterMachine, rows: RowArrays) -> Iterator[Disagreement]:
    """The rows that disagree with a machine, in their order."""
    first = 0
    for window in rows.windows():
        said, labels = machine.run(window.tokens), window.labels
        wrong = (said != labels) & (labels != UNLABELLED)
        found = np.flatnonzero(wrong.any(axis=1))
        steps = wrong[found].argmax(axis=1)
        columns = (found + first, steps, said[found, steps])
        yield from map(Disagreement, *(column.tolist() for column in columns))
        first += len(labels)
