"""The contents of labelled rows, and the rows that contradict each other or a machine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.data.examples import UNLABELLED, Examples


@dataclass(frozen=True)
class Summary:
    """Numbers about labelled rows."""

    rows: int
    tokens: int
    """In all rows together."""
    shortest: int
    """Tokens of the shortest row; likewise the median and the longest."""
    median: float
    longest: int
    labels: Literal["whole", "every step", "mixed"]
    """One label for each whole row, one for every token, or some of both."""
    classes: dict[str, int]
    """The number of rows with each class as their last label."""
    duplicates: int
    """Rows with the sequence of an earlier row."""
    contradictions: int
    """Sequences that occur with different labels: some of these are wrong."""
    contradicting_rows: int
    """Rows with one of those sequences."""


def summarise(examples: Examples, classes: Sequence[str]) -> Summary:
    """Count the contents of all rows."""
    lengths, same = examples.lengths, examples.same
    tokens, labelled = int(lengths.sum()), int((examples.flat_labels != UNLABELLED).sum())
    counts = np.bincount(examples.last, minlength=len(classes))
    clashing = find_contradictions(examples)
    whole = labelled == len(examples)  # the last step of every row has a label
    return Summary(
        rows=len(examples),
        tokens=tokens,
        shortest=int(lengths.min()),
        median=float(np.median(lengths)),
        longest=int(lengths.max()),
        labels="whole" if whole else "every step" if labelled == tokens else "mixed",
        classes=dict(zip(classes, counts.tolist(), strict=True)),
        duplicates=len(examples) - int(same.max()) - 1,
        contradictions=len(np.unique(same[clashing])),
        contradicting_rows=len(clashing),
    )


class Disagreement(NamedTuple):
    """A row, and its first label that a machine contradicts."""

    row: int
    step: int
    answer: int
    """The class that the machine gives there."""


def find_disagreements(machine: Machine | CounterMachine, examples: Examples) -> Iterator[Disagreement]:
    """Yield the rows that disagree with a machine, in their order."""
    first = 0
    for window in examples.matrices():
        answers, labels = machine.run(window.tokens), window.labels
        wrong = (answers != labels) & (labels != UNLABELLED)
        rows = np.flatnonzero(wrong.any(axis=1))
        steps = wrong[rows].argmax(axis=1)
        columns = (rows + first, steps, answers[rows, steps])
        yield from map(Disagreement, *(column.tolist() for column in columns))
        first += len(labels)


def find_contradictions(examples: Examples) -> NDArray[np.int64]:
    """Return the rows, in order, that have the same sequence as another row, and another label.

    All rows of such a sequence are included. Steps without a label contradict nothing.
    """
    same, repeated = examples.same, np.bincount(examples.same) > 1
    lengths = np.zeros(len(repeated), np.int64)
    lengths[same] = examples.lengths
    # A cell for each step of a repeated sequence, with the least and the largest of its labels.
    ends = np.cumsum(lengths * repeated)
    least = np.full(int(lengths[repeated].sum()), np.iinfo(np.int32).max, np.int32)
    largest = np.full(len(least), UNLABELLED, np.int32)
    first = 0
    for window in examples.matrices():
        numbers = same[first : first + len(window.labels)]
        known = (window.labels != UNLABELLED) & repeated[numbers, None]
        cells = (ends - lengths)[numbers, None] + np.arange(known.shape[1])
        np.minimum.at(least, cells[known], window.labels[known].astype(np.int32))
        np.maximum.at(largest, cells[known], window.labels[known].astype(np.int32))
        first += len(numbers)
    clashes = np.zeros(len(repeated), np.bool_)
    clashes[np.searchsorted(ends, np.flatnonzero(least < largest), side="right")] = True
    return np.flatnonzero(clashes[same])
