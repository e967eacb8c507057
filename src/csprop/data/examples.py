"""Labelled sequences, packed one after the other: memory follows the number of tokens."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

UNLABELLED = -1
"""The label of padding and of steps without a label. Losses and metrics ignore it."""
WINDOW = 1 << 16
"""Steps that are padded at once when all rows are visited."""


Kind = TypeVar("Kind")


class Padded(NamedTuple, Generic[Kind]):
    """Some rows, padded at the end to the longest, in arrays or tensors."""

    tokens: Kind  # (B, T), padding is 0
    labels: Kind  # (B, T), UNLABELLED where there is no label
    answers: Kind  # (B, T), bool: the labelled steps that count as the task's answer
    lengths: Kind  # (B,)


Steps: TypeAlias = "Padded[Tensor]"


@dataclass(frozen=True, eq=False)
class Examples:
    """Labelled sequences of possibly different lengths.

    The tokens of row i are `flat_tokens[begins[i] : begins[i] + lengths[i]]`. Choosing some rows copies
    only where they begin, so the training set and the held-out set share one store.
    """

    flat_tokens: NDArray[Any]  # (K,), the smallest types that hold the numbers
    flat_labels: NDArray[Any]  # (K,), UNLABELLED where there is no label
    flat_answers: NDArray[np.bool_]  # (K,)
    begins: NDArray[np.int64]  # (N,)
    lengths: NDArray[np.int64]  # (N,)

    @classmethod
    def from_matrices(cls, tokens: Any, labels: Any, answers: Any) -> "Examples":
        """Pack the rows of matrices (N, T), arrays or tensors; a row ends with its last answer."""
        tokens, labels, answers = map(np.asarray, (tokens, labels, answers))
        lengths = (answers * np.arange(1, tokens.shape[1] + 1)).max(axis=1, initial=0)
        begins = np.arange(len(tokens)) * tokens.shape[1]
        return cls(tokens.ravel(), labels.ravel(), answers.ravel(), begins, lengths)

    def __len__(self) -> int:
        return len(self.begins)

    def __getitem__(self, rows: Any) -> "Examples":
        rows = np.asarray(rows)
        return replace(self, begins=self.begins[rows], lengths=self.lengths[rows])

    @property
    def longest(self) -> int:
        return int(self.lengths.max(initial=0))

    @property
    def last(self) -> NDArray[np.int64]:
        """The label of the last step of each row, (N,)."""
        return self.flat_labels[self.begins + self.lengths - 1].astype(np.int64)

    @cached_property
    def same(self) -> NDArray[np.int64]:
        """The number of each row's sequence among the distinct ones in lexicographic order, (N,)."""
        return number_sequences(self.flat_tokens, self.begins, self.lengths)

    def padded(self) -> Steps:
        """Return all rows as int64 matrices (N, T), padded at the end to the longest row."""
        return _to_tensors(self._pad(slice(None)))

    @property
    def tokens(self) -> "Tensor":
        """The tokens of all rows, padded, (N, T); for small data, as `labels`."""
        return self.padded().tokens

    @property
    def labels(self) -> "Tensor":
        return self.padded().labels

    def windows(self, most: int = WINDOW) -> Iterator[Steps]:
        """Yield all rows in their order, padded: at most `most` steps at a time, or a single row."""
        return map(_to_tensors, self.matrices(most))

    def matrices(self, most: int = WINDOW) -> Iterator[Padded[NDArray[Any]]]:
        """Yield the windows in arrays of NumPy, without importing torch."""
        first = 0
        while first < len(self):
            longest = np.maximum.accumulate(self.lengths[first : first + most])
            fitting = int((longest * np.arange(1, len(longest) + 1) <= most).sum())
            rows = slice(first, first + max(1, fitting))
            yield self._pad(rows)
            first = rows.stop

    def _pad(self, rows: slice) -> Padded[NDArray[Any]]:
        begins, lengths = self.begins[rows], self.lengths[rows]
        steps = np.arange(lengths.max(initial=0))
        within = steps < lengths[:, None]  # (B, T)
        places = np.where(within, begins[:, None] + steps, 0)
        return Padded(
            self.flat_tokens[places].astype(np.int64) * within,
            np.where(within, self.flat_labels[places], np.int64(UNLABELLED)),
            self.flat_answers[places] & within,
            lengths,
        )

    def parts(self, most: int) -> list["Examples"]:
        """Return all rows as one part, or by similar length if padding would fill most of a matrix.

        Parts are padded to less than twice their tokens. Up to `most` steps are never divided.
        """
        if len(self) * self.longest <= max(most, 4 * int(self.lengths.sum())):
            return [self]
        sizes = np.frexp(self.lengths)[1]  # the number of binary digits
        return [self[sizes == size] for size in np.unique(sizes)]


def _to_tensors(rows: Padded[NDArray[Any]]) -> Steps:
    """Return the same numbers in tensors, which share the memory."""
    import torch

    return Padded(*map(torch.from_numpy, rows))


def number_sequences(
    tokens: NDArray[Any], begins: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Number the distinct sequences in lexicographic order, a sequence before its continuations.

    A sequence is compared as its bytes.
    """
    kind = tokens.dtype.newbyteorder(">")  # sorts as the numbers do
    content = tokens.astype(kind).tobytes()
    places = np.stack([begins, begins + lengths], axis=1) * kind.itemsize  # (N, 2)
    numbers: dict[bytes, int] = {}  # in the order in which they come

    def number() -> Iterator[int]:
        for first in range(0, len(places), WINDOW):  # lists of all of them would take much memory
            for begin, end in places[first : first + WINDOW].tolist():
                yield numbers.setdefault(content[begin:end], len(numbers))

    same = np.fromiter(number(), np.int64, len(places))
    rank = np.empty(len(numbers), np.int64)
    rank[[numbers[sequence] for sequence in sorted(numbers)]] = np.arange(len(numbers))
    return rank[same]
