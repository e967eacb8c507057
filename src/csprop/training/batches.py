"""The rows of a run, and of each of its steps."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from csprop.training.distributed import Group

Batch = list[tuple[Tensor, Tensor]]
"""The tokens and labels of one step, each (B, T); in several parts if the lengths are too different."""
MOST_PADDED = 1 << 16
"""A batch with at most this many tokens, padding included, is one part whatever its lengths are."""


def training_data(task: Task, config: RunConfig) -> tuple[Examples, Examples]:
    """Return the training set and the held-out set of a run: see `split_data`."""
    return split_data(task, config.recipe, config.seed)


def split_data(task: Task, recipe: Recipe, seed: int) -> tuple[Examples, Examples]:
    """Return the training set and the held-out set of a task.

    Raises:
        InputError: there are too few sequences to split, a data file has changed, or the pairs that are
            to be held out cannot be.
    """
    whole = task.examples(recipe.samples or task.samples, recipe.length, generator(seed, "data"))
    try:
        training, held_out = split(whole, recipe.split, generator(seed, "split"))
    except InputError as error:
        raise InputError(f"{task.describe().get('data', task.name)}: {error}") from None
    if not recipe.hold_pairs:
        return training, held_out
    return hold_pairs(task, training, held_out, recipe.hold_pairs, generator(seed, "pairs"))


class Batches:
    """The batches of one epoch, or the share of each that one process of a group takes."""

    def __init__(self, recipe: Recipe, seed: int, group: "Group | None" = None) -> None:
        self.recipe, self.seed, self.group = recipe, seed, group

    def of_epoch(self, epoch: int, training: Examples) -> Iterator[Batch]:
        """Yield the tokens and labels of each step of an epoch."""
        training = shorten(training, self.recipe.longest(epoch, training.longest))
        order = torch.randperm(len(training), generator=generator(self.seed, "order", epoch))
        cuts = generator(self.seed, "lengths", epoch)
        size = self.recipe.batch_size
        at_once = size * max(1, WINDOW // (size * max(1, training.longest)))
        for several in order.split(at_once):
            rows = training[several]
            if len(np.unique(rows.lengths)) == 1:  # many batches are padded as fast as one
                tokens, labels = self._padded(rows, cuts)
                sizes = [len(self._own_places(0, len(batch))) for batch in several.split(size)]
                pairs = zip(tokens.split(sizes), labels.split(sizes), strict=True)
                yield from ([pair] if len(pair[0]) else [] for pair in pairs)
                continue
            for batch in several.split(size):
                parts, before = [], 0
                for part in training[batch].parts(MOST_PADDED):
                    parts.append(self._padded(part, cuts, before))
                    before += len(part)
                yield [pair for pair in parts if len(pair[0])]

    def _own_places(self, begin: int, end: int) -> Tensor:
        """Return the places of a batch, from `begin` to `end`, whose rows this process takes."""
        places = torch.arange(begin, end)
        if self.group is None:
            return places
        return places[places % self.recipe.batch_size % self.group.size == self.group.rank]

    def _padded(self, rows: Examples, cuts: Generator, before: int = 0) -> tuple[Tensor, Tensor]:
        """Return the tokens and labels of this process's rows; `before` rows of the batch precede."""
        drawn = self.recipe.lengths == "drawn"
        lots = torch.rand(len(rows), rows.longest, generator=cuts) if drawn else None
        if self.group is not None:
            own = self._own_places(before, before + len(rows)) - before
            rows = rows[own]
            lots = None if lots is None else lots[own, : rows.longest]
        steps = rows.padded()
        return steps.tokens, supervised(steps, self.recipe, lots) if len(rows) else steps.labels


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


def supervised(batch: Steps, recipe: Recipe, lots: Tensor | None) -> Tensor:
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
