"""Labelled sequences, packed one after the other: memory follows the number of tokens."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from csprop.data.same import numbered

if TYPE_CHECKING:
    from torch import Tensor

UNLABELLED = -1
"""The label of padding and of steps without a label. Losses and metrics ignore it."""
WINDOW = 1 << 16
"""Steps that are padded at once, where all rows are gone through."""


class Matrices(NamedTuple):
    """Some rows, padded at the end to the longest."""

    tokens: NDArray[np.int64]  # (B, T), padding is 0
    labels: NDArray[np.int64]  # (B, T), UNLABELLED where there is no label
    answers: NDArray[np.bool_]  # (B, T), the labelled steps that count as the task's answer
    lengths: NDArray[np.int64]  # (B,)


@dataclass(frozen=True, eq=False)
class RowArrays:
    """Labelled sequences of possibly different lengths, in arrays of NumPy.

    The tokens of row i are `tokens[begins[i] : begins[i] + lengths[i]]`.
    """

    tokens: NDArray[Any]  # (K,), as labels and answers
    labels: NDArray[Any]
    answers: NDArray[np.bool_]
    begins: NDArray[np.int64]  # (N,), as lengths
    lengths: NDArray[np.int64]

    @classmethod
    def of(
        cls, tokens: NDArray[np.int64], labels: NDArray[np.int64], answers: NDArray[np.bool_]
    ) -> "RowArrays":
        """The rows of matrices (N, T); a row ends with its last answer."""
        lengths = (answers * np.arange(1, tokens.shape[1] + 1)).max(axis=1, initial=0)
        begins = np.arange(len(tokens)) * tokens.shape[1]
        return cls(tokens.ravel(), labels.ravel(), answers.ravel(), begins, lengths)

    def __len__(self) -> int:
        return len(self.begins)

    def __getitem__(self, rows: NDArray[Any]) -> "RowArrays":
        return replace(self, begins=self.begins[rows], lengths=self.lengths[rows])

    @property
    def last(self) -> NDArray[np.int64]:
        """The label of the last step of each row, (N,)."""
        return self.labels[self.begins + self.lengths - 1].astype(np.int64)

    @cached_property
    def same(self) -> NDArray[np.int64]:
        """The number of each row's sequence among the distinct ones in lexicographic order, (N,)."""
        return numbered(self.tokens, self.begins, self.lengths)

    @cached_property
    def examples(self) -> "Examples":
        """The same in tensors, which share the memory."""
        import torch

        tokens, labels, answers, begins, lengths = (
            torch.from_numpy(each)
            for each in (self.tokens, self.labels, self.answers, self.begins, self.lengths)
        )
        return Examples(Steps(tokens, labels, answers), begins, lengths)

    def padded(self) -> Matrices:
        """All rows as matrices."""
        return self._some(slice(None))

    def windows(self, most: int = WINDOW) -> Iterator[Matrices]:
        """All rows in their order, padded: some at a time, with at most `most` steps or of one row."""
        first = 0
        while first < len(self):
            longest = np.maximum.accumulate(self.lengths[first : first + most])
            fitting = int((longest * np.arange(1, len(longest) + 1) <= most).sum())
            rows = slice(first, first + max(1, fitting))
            yield self._some(rows)
            first = rows.stop

    def _some(self, rows: slice) -> Matrices:
        begins, lengths = self.begins[rows], self.lengths[rows]
        steps = np.arange(lengths.max(initial=0))
        within = steps < lengths[:, None]  # (B, T)
        places = np.where(within, begins[:, None] + steps, 0)
        return Matrices(
            self.tokens[places].astype(np.int64) * within,
            np.where(within, self.labels[places], np.int64(UNLABELLED)),
            self.answers[places] & within,
            lengths,
        )


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of some rows: one row after the other, (K,), or as a padded matrix, (B, T)."""

    tokens: "Tensor"  # whole numbers; padding is 0
    labels: "Tensor"  # whole numbers; UNLABELLED where there is no label
    answers: "Tensor"  # bool; the labelled steps that count as the task's answer

    @classmethod
    def of(cls, matrices: Matrices) -> "Steps":
        """The same in tensors, which share the memory."""
        import torch

        return cls(*map(torch.from_numpy, matrices[:3]))

    @property
    def lengths(self) -> "Tensor":
        """The number of steps up to the last answer of each row of a padded matrix, (B,)."""
        import torch

        steps = torch.arange(1, self.tokens.shape[1] + 1)
        return (self.answers * steps).amax(dim=1)


@dataclass(frozen=True, eq=False)
class Examples:
    """Labelled sequences of possibly different lengths.

    The tokens of row i are `flat.tokens[begins[i] : begins[i] + lengths[i]]`. Choosing some rows copies
    only where they begin, so the training set and the held-out set share one store.
    """

    flat: Steps  # (K,), the smallest types that hold the numbers
    begins: "Tensor"  # (N,) int64
    lengths: "Tensor"  # (N,) int64

    @classmethod
    def of(cls, tokens: "Tensor", labels: "Tensor", answers: "Tensor") -> "Examples":
        """The rows of matrices (N, T); a row ends with its last answer."""
        import torch

        lengths = Steps(tokens, labels, answers).lengths
        begins = torch.arange(len(tokens)) * tokens.shape[1]
        return cls(Steps(tokens.flatten(), labels.flatten(), answers.flatten()), begins, lengths)

    def __len__(self) -> int:
        return len(self.begins)

    def __getitem__(self, rows: "Tensor") -> "Examples":
        return Examples(self.flat, self.begins[rows], self.lengths[rows])

    @property
    def longest(self) -> int:
        """The length of the longest row."""
        return int(self.lengths.max()) if len(self) else 0

    @property
    def last(self) -> "Tensor":
        """The label of the last step of each row, (N,)."""
        return self.flat.labels[self.begins + self.lengths - 1].long()

    @cached_property
    def same(self) -> "Tensor":
        """The number of each row's sequence among the distinct ones in lexicographic order, (N,)."""
        import torch

        return torch.from_numpy(self.rows.same)

    @cached_property
    def rows(self) -> RowArrays:
        """The same in arrays of NumPy, which share the memory."""
        tensors = (self.flat.tokens, self.flat.labels, self.flat.answers, self.begins, self.lengths)
        return RowArrays(*(each.numpy() for each in tensors))

    def padded(self) -> Steps:
        """All rows as int64 matrices (N, T), padded at the end to the longest row."""
        return Steps.of(self.rows.padded())

    def windows(self, most: int = WINDOW) -> Iterator[Steps]:
        """All rows in their order, padded: some at a time, with at most `most` steps or of one row."""
        return map(Steps.of, self.rows.windows(most))

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
    def tokens(self) -> "Tensor":
        """The tokens of all rows, padded, (N, T)."""
        return self.padded().tokens

    @property
    def labels(self) -> "Tensor":
        """The labels of all rows, padded, (N, T)."""
        return self.padded().labels

    @property
    def answers(self) -> "Tensor":
        """Where the answers of all rows are, padded, (N, T)."""
        return self.padded().answers
