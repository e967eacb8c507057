"""Splitting examples into a training set and a held-out set."""

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from csprop.data.draws import Draws, TorchDraws, Whole
from csprop.data.examples import Examples
from csprop.errors import InputError

if TYPE_CHECKING:
    from torch import Generator

HELD_OUT = 0.2


def split(
    examples: Examples, how: Literal["paper", "disjoint"], generator: "Generator"
) -> tuple[Examples, Examples]:
    """Split examples into 80% for training and 20% held out, the same fractions in each class.

    Args:
        examples: all rows.
        how: "paper" splits the rows, so a sequence that was drawn twice can be in both sets;
            "disjoint" splits the distinct sequences, each with all its rows, as close to 20% as
            possible. A held-out sequence may still be a prefix of a training sequence.
        generator: decides which rows are held out.

    Raises:
        InputError: there are too few distinct sequences to split.
    """
    rows = hold_out(examples, how, TorchDraws(generator))
    return examples[~rows], examples[rows]


def hold_out(examples: Examples, how: Literal["paper", "disjoint"], draws: Draws) -> NDArray[np.bool_]:
    """Return True for each row that is held out, (N,); as for `split`."""
    group = examples.same if how == "disjoint" else np.arange(len(examples))
    sizes = np.bincount(group)  # rows of each sequence
    classes = np.empty_like(sizes)
    # The label of the first row of each sequence: of several values for one place NumPy keeps the last.
    classes[group[::-1]] = examples.last[::-1]
    held = np.zeros(len(sizes), np.bool_)
    seen = wanted = 0  # rows, and how many of the rows so far to hold out
    for label in np.unique(classes):
        members = np.flatnonzero(classes == label)
        seen += int(sizes[members].sum())
        share = round(HELD_OUT * seen) - wanted
        wanted += share
        shuffled = members[draws.permutation(len(members))]
        held[_fill(shuffled, sizes, share)] = True
        if len(members) > 1 and not held[members].any():  # few sequences: hold out one of them
            held[shuffled[0]] = True
    rows = held[group]
    if not rows.any() or rows.all():
        raise InputError(
            f"{len(held)} different sequence{'s' if len(held) > 1 else ''} cannot be split into a "
            "training and a held-out set: give more, with at least two of one class"
        )
    return rows


def _fill(members: Whole, sizes: Whole, share: int) -> Whole:
    """Take each member in turn that fits into the rest of the share."""
    taken = members[:0]
    while len(members := members[sizes[members] <= share]):
        rows = sizes[members].cumsum()
        fitting = int((rows <= share).sum())
        taken = np.concatenate([taken, members[:fitting]])
        share -= int(rows[fitting - 1])
        members = members[fitting:]
    return taken
