"""Labelled sequences, packed one after the other: memory follows the number of tokens."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from csprop.tasks.same import numbered

UNLABELLED = -1
"""The label of padding and of steps without a label. Losses and metrics ignore it."""
WINDOW = 1 << 16
"""Steps that are padded at once, where all rows are gone through."""


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of some rows: one row after the other, (K,), or as a padded matrix, (B, T)."""

    tokens: Tensor  # whole numbers; padding is 0
    labels: Tensor  # whole numbers; UNLABELLED where there is no label
    answers: Tensor  # bool; the labelled steps that count as the task's answer

    @property
    def lengths(self) -> Tensor:
        """The number of steps up to the last answer of each row of a padded matrix, (B,)."""
        steps = torch.arange(1, self.tokens.shape[1] + 1)
        return (self.answers * steps).amax(dim=1)


@dataclass(frozen=True, eq=False)
class Examples:
    """Labelled sequences of possibly different lengths.

    The tokens of row i are `flat.tokens[begins[i] : begins[i] + lengths[i]]`. Choosing some rows copies
    only where they begin, so the training set and the held-out set share one store.
    """

    flat: Steps  # (K,), the smallest types that hold the numbers
    begins: Tensor  # (N,) int64
    lengths: Tensor  # (N,) int64

    @classmethod
    def of(cls, tokens: Tensor, labels: Tensor, answers: Tensor) -> "Examples":
        """The rows of matrices (N, T); a row ends with its last answer."""
        lengths = Steps(tokens, labels, answers).lengths
        begins = torch.arange(len(tokens)) * tokens.shape[1]
        return cls(Steps(tokens.flatten(), labels.flatten(), answers.flatten()), begins, lengths)

    def __len__(self) -> int:
        return len(self.begins)

    def __getitem__(self, rows: Tensor) -> "Examples":
        return Examples(self.flat, self.begins[rows], self.lengths[rows])

    @property
    def longest(self) -> int:
        """The length of the longest row."""
        return int(self.lengths.max()) if len(self) else 0

    @property
    def last(self) -> Tensor:
        """The label of the last step of each row, (N,)."""
        return self.flat.labels[self.begins + self.lengths - 1].long()

    @cached_property
    def same(self) -> Tensor:
        """The number of each row's sequence among the distinct ones in lexicographic order, (N,)."""
        arrays = (self.flat.tokens.numpy(), self.begins.numpy(), self.lengths.numpy())
        return torch.from_numpy(numbered(*arrays))

    def padded(self) -> Steps:
        """All rows as int64 matrices (N, T), padded at the end to the longest row."""
        steps = np.arange(self.longest)
        within = steps < self.lengths.numpy()[:, None]  # (N, T)
        places = np.where(within, self.begins.numpy()[:, None] + steps, 0)
        tokens, labels, answers = (
            flat.numpy()[places] for flat in (self.flat.tokens, self.flat.labels, self.flat.answers)
        )
        return Steps(
            torch.from_numpy(tokens.astype(np.int64) * within),
            torch.from_numpy(np.where(within, labels, np.int64(UNLABELLED))),
            torch.from_numpy(answers & within),
        )

    def windows(self, most: int = WINDOW) -> Iterator[Steps]:
        """All rows in their order, padded: some at a time, with at most `most` steps or of one row."""
        first, lengths = 0, self.lengths.numpy()
        while first < len(self):
            longest = np.maximum.accumulate(lengths[first : first + most])
            fitting = int((longest * np.arange(1, len(longest) + 1) <= most).sum())
            rows = slice(first, first + max(1, fitting))
            yield Examples(self.flat, self.begins[rows], self.lengths[rows]).padded()
            first = rows.stop

    def parts(self, most: int) -> list["Examples"]:
        """All rows at once, unless padding would make most of a large matrix: then by similar length.

        Args:
            most: the number of steps up to which a matrix is never divided.

        Returns:
            Parts of which each is padded to less than twice its tokens, or one part.
        """
        padded = len(self) * self.longest
        if padded <= max(most, 4 * int(self.lengths.sum())):
            return [self]
        sizes = self.lengths.double().log2().floor()
        return [self[sizes == size] for size in sizes.unique()]

    # Matrices of everything, for data that are known to be small.

    @property
    def tokens(self) -> Tensor:
        """The tokens of all rows, padded, (N, T)."""
        return self.padded().tokens

    @property
    def labels(self) -> Tensor:
        """The labels of all rows, padded, (N, T)."""
        return self.padded().labels

    @property
    def answers(self) -> Tensor:
        """Where the answers of all rows are, padded, (N, T)."""
        return self.padded().answers
