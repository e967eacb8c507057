"""Values that change from epoch to epoch. They depend only on its number, so a run can be resumed."""

import math
from dataclasses import replace

import numpy as np

from csprop.data.examples import UNLABELLED, Examples
from csprop.training.presets import Recipe

SHORTEST = 4
"""The longest sequences of the first epoch, where short ones come first."""


def temperature(recipe: Recipe, epoch: int) -> float:
    """Return the temperature of routers in an epoch, counted from 1; it falls geometrically."""
    done = min(1.0, (epoch - 1) / recipe.cool_epochs) if recipe.cool_epochs else 1.0
    return recipe.cool**done


def learning_rate(recipe: Recipe, epoch: int) -> float:
    """Return the learning rate of an epoch, counted from 1, with the schedule cosine.

    It equals torch's CosineAnnealingLR: `lr` in the first epoch, and `last_lr` after the last one.
    """
    left = (1 + math.cos(math.pi * (epoch - 1) / recipe.epochs)) / 2
    return recipe.last_lr + (recipe.lr - recipe.last_lr) * left


def longest(recipe: Recipe, epoch: int, whole: int) -> int:
    """Return the longest length of an epoch, where `whole` is the longest length of all."""
    if epoch > recipe.short_first:
        return whole
    return min(whole, SHORTEST + (whole - SHORTEST) * (epoch - 1) // recipe.short_first)


def shortened(examples: Examples, longest: int) -> Examples:
    """Cut sequences to a length; leave out those that have no label at the cut.

    If all would be left out, they stay as they are.
    """
    if longest >= examples.longest:
        return examples
    lengths = np.minimum(examples.lengths, longest)
    ends = examples.begins + lengths - 1
    kept = examples.flat_labels[ends] != UNLABELLED
    if not kept.any():
        return examples
    answers = examples.flat_answers.copy()
    answers[ends[kept]] = True
    return replace(examples, flat_answers=answers, lengths=lengths)[kept]
