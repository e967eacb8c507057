"""Splitting examples into a training set and a held-out set."""

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from csprop.data.draws import Draws, TorchDraws, Whole
from csprop.data.examples import Examples, RowArrays
from csprop.errors import InputError

if TYPE_CHECKING:
    from torch import Generator

HELD_OUT = 0.2


def split(
    examples: Examples, how: Literal["paper", "disjoint"], generator: "Generator"
) -> tuple[Examples, Examples]:
    """Split examples into 80% for training and 20% held out, the same fractions in each class.

    Args:
        examples: the examples to split.
        how: "paper" splits the rows, so that a sequence that was drawn twice can be in both sets;
            "disjoint" splits the distinct sequences, each with all its rows, as close to 20% as
            possible. A held-out sequence may still be a prefix of a training sequence.
        generator: decides which rows are held out.

    Returns:
        The training set and the held-out set.

    Raises:
        InputError: there are too few distinct sequences to split.
    """
    import torch

    rows = torch.from_numpy(held_out(examples.rows, how, TorchDraws(generator)))
    return examples[~rows], examples[rows]


def held_out(rows: RowArrays, how: Literal["paper", "disjoint"], draws: Draws) -> NDArray[np.bool_]:
    """Which rows are held out, (N,); as for `split`."""
    group = rows.same if how == "disjoint" else np.arange(len(rows))
    sizes = np.bincount(group)  # rows of each sequence
    classes = np.empty_like(sizes)
    # Of each sequence the label of its first row: of several values for one place NumPy keeps the last.
    classes[group[::-1]] = rows.last[::-1]
    held = np.zeros(len(sizes), np.bool_)
    seen = wanted = 0  # rows, and how many of those so far to hold out
    for label in np.unique(classes):
        members = np.flatnonzero(classes == label)
        seen += int(sizes[members].sum())
        share = round(HELD_OUT * seen) - wanted
        wanted += share
        shuffled = members[draws.permutation(len(members))]
        held[_filling(shuffled, sizes, share)] = True
        if len(members) > 1 and not held[members].any():  # few sequences: one is better than none
            held[shuffled[0]] = True
    found = held[group]
    if not found.any() or found.all():
        raise InputError(
            f"{len(held)} different sequence{'s' if len(held) > 1 else ''} cannot be split into a "
            "training and a held-out set: give more, with at least two of one class"
        )
    return found


def _filling(members: Whole, sizes: Whole, share: int) -> Whole:
    """The members that are taken if each one is that fits into what is left of the share."""
    taken = members[:0]
    while len(members := members[sizes[members] <= share]):
        rows = sizes[members].cumsum()
        fitting = int((rows <= share).sum())
        taken = np.concatenate([taken, members[:fitting]])
        share -= int(rows[fitting - 1])
        members = members[fitting:]
    return taken
