"""What changes from epoch to epoch: a function of its number alone, so that a run can be resumed."""

import math
from dataclasses import replace

import numpy as np

from csprop.data.examples import UNLABELLED, Examples
from csprop.training.presets import Recipe

SHORTEST = 4
"""The longest sequences of the first epoch, where short ones come first."""


def temperature(recipe: Recipe, epoch: int) -> float:
    """The temperature of routers in an epoch, from 1 on: it falls from 1 to `cool`, geometrically."""
    done = min(1.0, (epoch - 1) / recipe.cool_epochs) if recipe.cool_epochs else 1.0
    return recipe.cool**done


def learning_rate(recipe: Recipe, epoch: int) -> float:
    """The learning rate of an epoch, from 1 on, with the schedule cosine.

    It is that of torch's CosineAnnealingLR: `lr` in the first epoch, and `last_lr` after the last one.
    """
    left = (1 + math.cos(math.pi * (epoch - 1) / recipe.epochs)) / 2
    return recipe.last_lr + (recipe.lr - recipe.last_lr) * left


def longest(recipe: Recipe, epoch: int, whole: int) -> int:
    """The longest sequence of an epoch, where `whole` is the longest of all."""
    if epoch > recipe.short_first:
        return whole
    return min(whole, SHORTEST + (whole - SHORTEST) * (epoch - 1) // recipe.short_first)


def shortened(examples: Examples, longest: int) -> Examples:
    """Sequences up to a length: longer ones are cut there, or left out where the cut has no label.

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
