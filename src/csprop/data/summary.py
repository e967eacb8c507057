"""The contents of labelled rows, and the rows that contradict each other or a machine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.data.examples import UNLABELLED, Examples

AT_ONCE = 1 << 20
"""Steps of repeated sequences that are compared at once."""


@dataclass(frozen=True)
class Summary:
    """Numbers about labelled rows."""

    rows: int
    tokens: int
    """The number of tokens in all rows together."""
    shortest: int
    """The length of the shortest row."""
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
    """From 0 on."""
    step: int
    """The step that has the label, from 0 on."""
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
    same, lengths = examples.same, examples.lengths
    order = np.argsort(same, kind="stable")
    order = order[(np.bincount(same) > 1)[same[order]]]  # repeated sequences, each with all its rows
    if not len(order):
        return order
    # Cut into parts of few steps; no sequence is in two parts.
    before = (np.cumsum(lengths[order]) - lengths[order]) // AT_ONCE
    firsts = _firsts(same[order])
    parts = np.split(order, firsts[1:][np.diff(before[firsts]) > 0])
    return np.sort(np.concatenate([part[_clashes(examples, part)] for part in parts]))


def _firsts(same: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each sequence begins in rows that are sorted by sequence."""
    return np.flatnonzero(np.r_[True, same[1:] != same[:-1]])


def _clashes(examples: Examples, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return True for rows, sorted by sequence, whose sequence has two labels at some step."""
    begins, lengths = examples.begins[rows], examples.lengths[rows]
    firsts = _firsts(examples.same[rows])
    group = np.repeat(np.arange(len(firsts)), np.diff(np.r_[firsts, len(rows)]))
    step = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    labels = examples.flat_labels[np.repeat(begins, lengths) + step].astype(np.int64)
    # A cell for each step of a sequence, with the least and the largest of its labels.
    offsets = np.cumsum(lengths[firsts]) - lengths[firsts]
    cell = np.repeat(offsets[group], lengths) + step
    known = labels != UNLABELLED
    least = np.full(int(lengths[firsts].sum()), np.iinfo(np.int64).max)
    largest = np.full(len(least), UNLABELLED, np.int64)
    np.minimum.at(least, cell[known], labels[known])
    np.maximum.at(largest, cell[known], labels[known])
    return np.logical_or.reduceat(least < largest, offsets)[group]
