"""What labelled rows contain, in numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from csprop.tasks.examples import UNLABELLED, Examples

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
    """Count what there is."""
    lengths, same = examples.lengths, examples.same.numpy()
    given = np.bincount(examples.last.numpy(), minlength=len(classes))
    whole, every = labelling(examples)
    clashing = contradicting(examples)
    return Summary(
        rows=len(examples),
        tokens=int(lengths.sum()),
        shortest=int(lengths.min()),
        median=float(np.median(lengths.numpy())),
        longest=int(lengths.max()),
        labels="whole" if whole else "every step" if every else "mixed",
        classes=dict(zip(classes, given.tolist(), strict=True)),
        duplicates=len(examples) - int(same.max()) - 1,
        contradictions=len(np.unique(same[clashing])),
        contradicting_rows=len(clashing),
    )


def labelling(examples: Examples) -> tuple[bool, bool]:
    """Whether every row has a label for the whole alone, and whether every row has one at each step."""
    whole = every = True
    for batch in examples.windows(AT_ONCE):
        given = (batch.labels != UNLABELLED).sum(dim=1)
        whole = whole and bool((given == 1).all())
        every = every and bool((given == batch.lengths).all())
    return whole, every


def contradicting(examples: Examples) -> np.ndarray:
    """The rows, in order, that have the same sequence as another row, and another label at some step.

    All rows of such a sequence are given. Steps without a label contradict nothing.
    """
    same = examples.same.numpy()
    order = np.argsort(same, kind="stable")
    order = order[(np.bincount(same) > 1)[same[order]]]  # repeated sequences, each with all its rows
    lengths = examples.lengths.numpy()[order]
    found = []
    for rows in np.split(order, _cuts(same[order], lengths)):
        if len(rows):
            found.append(rows[_clashes(examples, rows)])
    return np.sort(np.concatenate(found)) if found else order


def _cuts(same: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Where to cut sorted rows, so that a part has few steps and no sequence is in two parts."""
    before = (np.cumsum(lengths) - lengths) // AT_ONCE
    firsts = np.flatnonzero(np.r_[True, same[1:] != same[:-1]]) if len(same) else np.empty(0, np.int64)
    return firsts[1:][np.diff(before[firsts]) > 0]


def _clashes(examples: Examples, rows: np.ndarray) -> np.ndarray:
    """Whether each row's sequence has two labels at some step; rows of a sequence follow each other."""
    same, begins = examples.same.numpy()[rows], examples.begins.numpy()[rows]
    lengths = examples.lengths.numpy()[rows]
    firsts = np.flatnonzero(np.r_[True, same[1:] != same[:-1]])
    group = np.repeat(np.arange(len(firsts)), np.diff(np.r_[firsts, len(rows)]))
    step = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    places = np.repeat(begins, lengths) + step
    labels = examples.flat.labels.numpy()[places].astype(np.int64)
    offsets = np.cumsum(lengths[firsts]) - lengths[firsts]  # one place for each step of a sequence
    cell = np.repeat(offsets[group], lengths) + step
    known = labels != UNLABELLED
    least = np.full(lengths[firsts].sum(), np.iinfo(np.int64).max)
    most = np.full(len(least), -1)
    np.minimum.at(least, cell[known], labels[known])
    np.maximum.at(most, cell[known], labels[known])
    return np.logical_or.reduceat(least < most, offsets)[group]
