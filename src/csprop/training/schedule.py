"""What changes from epoch to epoch: a function of its number alone, so that a run can be resumed."""

import torch

from csprop.tasks.base import UNLABELLED, Examples
from csprop.training.presets import Recipe

SHORTEST = 4
"""The longest sequences of the first epoch, where short ones come first."""


def temperature(recipe: Recipe, epoch: int) -> float:
    """The temperature of routers in an epoch, from 1 on: it falls from 1 to `cool`, geometrically."""
    done = min(1.0, (epoch - 1) / recipe.cool_epochs) if recipe.cool_epochs else 1.0
    return recipe.cool**done


def longest(recipe: Recipe, epoch: int, whole: int) -> int:
    """The longest sequence of an epoch, where `whole` is the longest of all."""
    if epoch > recipe.short_first:
        return whole
    return min(whole, SHORTEST + (whole - SHORTEST) * (epoch - 1) // recipe.short_first)


def shortened(examples: Examples, longest: int) -> Examples:
    """Sequences up to a length: longer ones end at their last label before it, or are left out.

    If all would be left out, they stay as they are.
    """
    if longest >= examples.tokens.shape[1]:
        return examples
    labels = examples.labels[:, :longest]
    labelled = labels != UNLABELLED
    steps = torch.arange(1, longest + 1)
    ends = (labelled * steps).amax(dim=1)
    if not ends.any():
        return examples
    over = examples.lengths > longest
    answers = examples.answers[:, :longest] | (over[:, None] & labelled & (steps == ends[:, None]))
    return Examples(examples.tokens[:, :longest], labels, answers)[ends > 0]
