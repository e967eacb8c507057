"""What a task is: a language with an exact answer for every prefix."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Generator, Tensor

from csprop.errors import InputError
from csprop.tasks.machine import Machine, explore

UNLABELLED = -1
"""In place of a label: padding, or a step that nobody labelled. No loss or metric counts it."""


@dataclass(frozen=True)
class Examples:
    """Labelled sequences of possibly different lengths, padded at the end."""

    tokens: Tensor  # (N, T) int64; padding is 0
    labels: Tensor  # (N, T) int64; UNLABELLED where there is no label
    answers: Tensor  # (N, T) bool; the labelled steps that count as the task's answer

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, rows: Tensor) -> "Examples":
        return Examples(self.tokens[rows], self.labels[rows], self.answers[rows])

    @property
    def lengths(self) -> Tensor:
        """Steps up to the last answer, (N,)."""
        steps = torch.arange(1, self.tokens.shape[1] + 1)
        return (self.answers * steps).amax(dim=1)

    def trimmed(self) -> "Examples":
        """Without the steps that are padding in every row."""
        longest = int(self.lengths.max()) if len(self) else 0
        return Examples(self.tokens[:, :longest], self.labels[:, :longest], self.answers[:, :longest])


class Task(ABC):
    """A task with a known truth, whose sequences can be drawn at any length.

    It is told twice: `truth` says what is meant, and `start`, `step` and `answer` are an exact machine
    for it, which reads one token at a time. A machine's states are any values that can be hashed.
    """

    name: str
    description: str
    vocab: tuple[str, ...]
    classes: tuple[str, ...]
    words: bool = False
    """Whether a sequence is written as words, rather than as characters."""
    samples: int = 5000
    """How many sequences the paper draws."""
    order: int = 2
    """Size of the rotations that hold the task's group: what it asks of a model."""
    depth: int = 1
    """Layers that the task asks of the exact family."""
    finite: bool = True
    """Whether finitely many states of the machine can be reached."""

    @abstractmethod
    def truth(self, sequence: Sequence[int]) -> int:
        """The class of a whole sequence, by definition rather than by speed."""

    @abstractmethod
    def start(self) -> Hashable:
        """The state before the first token."""

    @abstractmethod
    def step(self, state: Any, token: int) -> Hashable:
        """The state that follows a state."""

    @abstractmethod
    def answer(self, state: Any) -> int:
        """The class of any sequence that leads to this state."""

    def size(self, state: Any) -> int:
        """How much a state holds, where there are infinitely many: so many are a finite task again."""
        return 0

    @cached_property
    def machine(self) -> Machine:
        """All reachable states as a table."""
        if not self.finite:
            raise InputError(
                f"{self.name}: its machine has infinitely many states: no table holds them"
            )
        return explore(self.start(), self.step, self.answer, len(self.vocab))

    def labels(self, tokens: Tensor) -> Tensor:
        """The class of every prefix of every row, (N, T) -> (N, T)."""
        return self.machine.run(tokens)

    def sample(self, count: int, length: int, generator: Generator) -> Tensor:
        """`count` sequences of one length, (count, length)."""
        self.check_length(length)
        return torch.randint(len(self.vocab), (count, length), generator=generator)

    def check_length(self, length: int) -> None:
        """Refuse a length at which the task has no question to ask."""
        if length < 1:
            raise InputError(f"{self.name}: length {length} is empty: write 1 or more")

    def examples(self, tokens: Tensor) -> Examples:
        """Rows of one length with the label of every prefix; the answer is the last one."""
        answers = torch.zeros_like(tokens, dtype=torch.bool)
        answers[:, -1] = True
        return Examples(tokens, self.labels(tokens), answers)


def every_sequence(symbols: int, length: int) -> Tensor:
    """All `symbols`^`length` sequences, in counting order."""
    places = symbols ** torch.arange(length - 1, -1, -1)
    return torch.arange(symbols**length)[:, None] // places % symbols


def symbols(text: str, words: bool) -> list[str]:
    """A written sequence as its tokens: words between spaces, or characters."""
    return text.split() if words else [each for each in text if not each.isspace()]


def written(symbols: Sequence[str], words: bool) -> str:
    """The inverse of `symbols`."""
    return (" " if words else "").join(symbols)


def encode(symbols: Sequence[str], vocab: Sequence[str], where: str) -> list[int]:
    """Symbols to token numbers."""
    if not symbols:
        raise InputError(f"{where}: the sequence is empty: write at least one token")
    numbers = {symbol: number for number, symbol in enumerate(vocab)}
    for position, symbol in enumerate(symbols, start=1):
        if symbol not in numbers:
            raise InputError(
                f"{where}: token {symbol!r} at position {position} is not in the vocabulary: "
                f"write {shown(vocab)}"
            )
    return [numbers[symbol] for symbol in symbols]


def shown(names: Sequence[str], most: int = 12) -> str:
    """A short list of names for a sentence."""
    listed = ", ".join(names[:most])
    return f"{listed}, … ({len(names)} in all)" if len(names) > most else listed
