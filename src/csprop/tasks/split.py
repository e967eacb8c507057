"""Splitting examples into a training set and a held-out set."""

from typing import Literal

import torch
from torch import Generator, Tensor

from csprop.errors import InputError
from csprop.tasks.examples import Examples

HELD_OUT = 0.2


def split(
    examples: Examples, how: Literal["paper", "disjoint"], generator: Generator
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
    group = examples.same if how == "disjoint" else torch.arange(len(examples))
    sizes = group.bincount()  # rows of each sequence
    classes = torch.empty_like(sizes)
    # Of each sequence the label of its first row: of several values for one place NumPy keeps the last.
    classes.numpy()[group.numpy()[::-1]] = examples.last.numpy()[::-1]
    held_out = torch.zeros(len(sizes), dtype=torch.bool)
    seen = wanted = 0  # rows, and how many of those so far to hold out
    for label in classes.unique():
        members = (classes == label).nonzero()[:, 0]
        seen += int(sizes[members].sum())
        share = round(HELD_OUT * seen) - wanted
        wanted += share
        shuffled = members[torch.randperm(len(members), generator=generator)]
        held_out[_filling(shuffled, sizes, share)] = True
        if len(members) > 1 and not held_out[members].any():  # few sequences: one is better than none
            held_out[shuffled[0]] = True
    rows = held_out[group]
    if not rows.any() or rows.all():
        raise InputError(
            f"{len(held_out)} different sequences cannot be split into a training and a held-out "
            "set: give more, with at least two of one class"
        )
    return examples[~rows], examples[rows]


def _filling(members: Tensor, sizes: Tensor, share: int) -> Tensor:
    """The members that are taken if each one is that fits into what is left of the share."""
    taken = members[:0]
    while len(members := members[sizes[members] <= share]):
        rows = sizes[members].cumsum(0)
        fitting = int((rows <= share).sum())
        taken = torch.cat([taken, members[:fitting]])
        share -= int(rows[fitting - 1])
        members = members[fitting:]
    return taken
