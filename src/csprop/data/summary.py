"""What labelled rows contain, in numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

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
    """Whether rows have one label for the whole, or one for every token."""
    classes: dict[str, int]
    """How often each class is the last label of a row."""
    duplicates: int
    """Rows whose sequence is that of an earlier row."""
    contradictions: int
    """Sequences that occur with different labels: some of these are wrong."""
    contradicting_rows: int
    """Rows with one of those sequences."""


def summary(examples: Examples, classes: Sequence[str]) -> Summary:
    """Count what there is in all rows of a file."""
    lengths, same = examples.lengths.numpy(), examples.same.numpy()
    tokens, labelled = int(lengths.sum()), int((examples.flat.labels != UNLABELLED).sum())
    given = np.bincount(examples.last.numpy(), minlength=len(classes))
    clashing = contradicting(examples)
    whole = labelled == len(examples)  # the last step of every row has a label
    return Summary(
        rows=len(examples),
        tokens=tokens,
        shortest=int(lengths.min()),
        median=float(np.median(lengths)),
        longest=int(lengths.max()),
        labels="whole" if whole else "every step" if labelled == tokens else "mixed",
        classes=dict(zip(classes, given.tolist(), strict=True)),
        duplicates=len(examples) - int(same.max()) - 1,
        contradictions=len(np.unique(same[clashing])),
        contradicting_rows=len(clashing),
    )


def contradicting(examples: Examples) -> NDArray[np.int64]:
    """The rows, in order, that have the same sequence as another row, and another label at some step.

    All rows of such a sequence are given. Steps without a label contradict nothing.
    """
    same, lengths = examples.same.numpy(), examples.lengths.numpy()
    order = np.argsort(same, kind="stable")
    order = order[(np.bincount(same) > 1)[same[order]]]  # repeated sequences, each with all its rows
    if not len(order):
        return order
    # Cut into parts with few steps, so that no sequence is in two parts.
    before = (np.cumsum(lengths[order]) - lengths[order]) // AT_ONCE
    firsts = _firsts(same[order])
    parts = np.split(order, firsts[1:][np.diff(before[firsts]) > 0])
    return np.sort(np.concatenate([part[_clashes(examples, part)] for part in parts]))


def _firsts(same: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each sequence begins in rows that are sorted by sequence."""
    return np.flatnonzero(np.r_[True, same[1:] != same[:-1]])


def _clashes(examples: Examples, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each row's sequence has two labels at some step, for rows sorted by sequence."""
    begins, lengths = examples.begins.numpy()[rows], examples.lengths.numpy()[rows]
    firsts = _firsts(examples.same.numpy()[rows])
    group = np.repeat(np.arange(len(firsts)), np.diff(np.r_[firsts, len(rows)]))
    step = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    labels = examples.flat.labels.numpy()[np.repeat(begins, lengths) + step].astype(np.int64)
    # A cell for each step of a sequence, with the least and the largest of its labels.
    offsets = np.cumsum(lengths[firsts]) - lengths[firsts]
    cell = np.repeat(offsets[group], lengths) + step
    known = labels != UNLABELLED
    least = np.full(int(lengths[firsts].sum()), np.iinfo(np.int64).max)
    largest = np.full(len(least), UNLABELLED, np.int64)
    np.minimum.at(least, cell[known], labels[known])
    np.maximum.at(largest, cell[known], labels[known])
    return np.logical_or.reduceat(least < largest, offsets)[group]
