"""Splitting examples into a training set and a held-out set."""

from typing import Literal

import torch
from torch import Generator, Tensor

from csprop.errors import InputError
from csprop.tasks.base import UNLABELLED, Examples

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
    classes = _last_label(examples)
    if how == "disjoint":
        # A label of its own for padding keeps "0" apart from "00".
        padded = examples.tokens.masked_fill(_beyond(examples), UNLABELLED)
        _, group = padded.unique(dim=0, return_inverse=True)
    else:
        group = torch.arange(len(examples))
    held_out = torch.zeros(int(group.max()) + 1 if len(group) else 0, dtype=torch.bool)
    rows_of = group.bincount().tolist()
    seen = wanted = 0  # rows, and how many of those so far to hold out
    for label in classes.unique():
        members = group[classes == label].unique()
        seen += int((classes == label).sum())
        share = round(HELD_OUT * seen) - wanted
        wanted += share
        shuffled = members[torch.randperm(len(members), generator=generator)].tolist()
        for member in shuffled:
            if rows_of[member] <= share:
                held_out[member] = True
                share -= rows_of[member]
        if len(members) > 1 and not held_out[members].any():  # few sequences: one is better than none
            held_out[shuffled[0]] = True
    rows = held_out[group]
    if not rows.any() or rows.all():
        raise InputError(
            f"{len(held_out)} different sequences cannot be split into a training and a held-out "
            "set: give more, with at least two of one class"
        )
    return examples[~rows], examples[rows]


def _beyond(examples: Examples) -> Tensor:
    return torch.arange(examples.tokens.shape[1]) >= examples.lengths[:, None]


def _last_label(examples: Examples) -> Tensor:
    return examples.labels.gather(1, examples.lengths[:, None] - 1)[:, 0]
