"""The rows of a run, and of each of its steps."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Generator, Tensor

from csprop.data.examples import UNLABELLED, WINDOW, Examples, Steps
from csprop.data.splits import split
from csprop.errors import InputError
from csprop.tasks.base import Task
from csprop.tasks.pairs import hold_pairs
from csprop.training.config import RunConfig
from csprop.training.presets import Recipe
from csprop.training.seeding import generator

Batch = list[tuple[Tensor, Tensor]]
"""The tokens and labels of one step, each (B, T); in several parts if the lengths are too different."""
MOST_PADDED = 1 << 16
"""A batch with at most this many tokens, padding included, is one part whatever its lengths are."""


def training_data(task: Task, config: RunConfig) -> tuple[Examples, Examples]:
    """Return the training set and the held-out set of a run."""
    return split_data(task, config.recipe, config.seed)


def split_data(task: Task, recipe: Recipe, seed: int) -> tuple[Examples, Examples]:
    """Return the training set and the held-out set of a task."""
    whole = task.examples(recipe.samples or task.samples, recipe.length, generator(seed, "data"))
    try:
        training, held_out = split(whole, recipe.split, generator(seed, "split"))
    except InputError as error:
        raise InputError(f"{task.describe().get('data', task.name)}: {error}") from None
    if not recipe.hold_pairs:
        return training, held_out
    return hold_pairs(task, training, held_out, recipe.hold_pairs, generator(seed, "pairs"))


def batches_of_epoch(recipe: Recipe, seed: int, epoch: int, training: Examples) -> Iterator[Batch]:
    """Yield the tokens and labels of each step of an epoch."""
    training = shorten(training, recipe.longest(epoch, training.longest))
    order = torch.randperm(len(training), generator=generator(seed, "order", epoch))
    cuts = generator(seed, "lengths", epoch)
    size = recipe.batch_size
    at_once = size * max(1, WINDOW // (size * max(1, training.longest)))
    for several in order.split(at_once):
        rows = training[several]
        if len(np.unique(rows.lengths)) == 1:  # many batches are padded as fast as one
            tokens, labels = _padded(rows, recipe, cuts)
            yield from ([pair] for pair in zip(tokens.split(size), labels.split(size), strict=True))
            continue
        for batch in several.split(size):
            yield [_padded(part, recipe, cuts) for part in training[batch].parts(MOST_PADDED)]


def _padded(rows: Examples, recipe: Recipe, cuts: Generator) -> tuple[Tensor, Tensor]:
    drawn = recipe.lengths == "drawn"
    lots = torch.rand(len(rows), rows.longest, generator=cuts) if drawn else None
    steps = rows.padded()
    return steps.tokens, supervised(steps, recipe, lots)


def shorten(examples: Examples, longest: int) -> Examples:
    """Cut sequences to a length, without those that have no label at the cut, unless all would go."""
    if longest >= examples.longest:
        return examples
    lengths = np.minimum(examples.lengths, longest)
    ends = examples.begins + lengths - 1
    labelled = examples.flat_labels[ends] != UNLABELLED
    if not labelled.any():
        return examples
    answers = examples.flat_answers.copy()
    answers[ends[labelled]] = True
    return replace(examples, flat_answers=answers, lengths=lengths)[labelled]


def supervised(batch: Steps, recipe: Recipe, lots: Tensor | None = None) -> Tensor:
    """Return the labels to learn from, (B, T); all others are UNLABELLED.

    The model is causal, so learning from a prefix means learning from the steps up to its end. With
    lots, (B, T), a row ends with the labelled step that has the largest lot.
    """
    ends = batch.lengths
    if lots is not None:
        ends = lots.masked_fill(batch.labels == UNLABELLED, -1).argmax(dim=1) + 1
    steps = torch.arange(1, batch.labels.shape[1] + 1)
    outside = steps > ends[:, None] if recipe.supervise == "every" else steps != ends[:, None]
    return batch.labels.masked_fill(outside, UNLABELLED)
