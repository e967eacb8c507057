"""What a task is: sequences of tokens, and the class of each."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Generator, Tensor

from csprop.automata.machine import Machine
from csprop.automata.walk import Endless, Oracle
from csprop.errors import InputError

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
    """What a model learns: sequences of tokens, and the class of each.

    A task of one's own is a subclass that tells the truth twice: `truth` says what is meant, and
    `start`, `step` and `answer` are an exact machine for it, which reads one token at a time. A
    machine's states are any values that can be hashed. Such a task has an `oracle`, and sequences of
    any length can be drawn and labelled. A file of labelled rows is a task without one.
    """

    name: str
    description: str
    vocab: tuple[str, ...]
    classes: tuple[str, ...]
    words: bool = False
    """Whether a sequence is written as words, rather than as characters."""

    # What it asks of a model and of training.
    samples: int = 5000
    """How many sequences the paper draws."""
    order: int = 2
    """Size of the rotations that hold the task's group."""
    depth: int = 1
    """Layers of the exact family."""
    finite: bool = True
    """Whether finitely many states of the machine can be reached."""
    loss: Literal["cross_entropy", "focal"] = "cross_entropy"
    """What the paper trains it with."""

    # What is told of it.
    metric: Literal["accuracy", "f1"] = "accuracy"
    """What the paper reports."""
    paper_epochs: str = ""
    """Epochs to 100% by the paper's Table 2, by the text beside it, and by its Figure 3."""
    paper_gap: str = ""
    """Epochs from 90% to 100% by the paper, mean and standard deviation."""

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

    @property
    def oracle(self) -> Oracle | None:
        """The exact machine, which a proof walks; None where the truth is known for some rows alone."""
        return Oracle(len(self.vocab), self.start(), self.step, self._answer)

    def _answer(self, state: Any) -> int:
        answer = self.answer(state)
        with suppress(TypeError):
            if 0 <= operator.index(answer) < len(self.classes):
                return operator.index(answer)
        raise InputError(
            f"{self.name}: the answer {answer!r} in the state {state!r} is no class: return a number "
            f"from 0 to {len(self.classes) - 1}"
        )

    @property
    def data(self) -> Examples:
        """All labelled rows, where the task is a file of them."""
        raise InputError(f"{self.name}: has no rows of its own: draw some with `examples`")

    @property
    def source(self) -> str:
        """Who says what is right: the task, or its file."""
        return self.name

    @cached_property
    def machine(self) -> Machine:
        """The oracle as a table.

        Raises:
            InputError: it has infinitely many states, or more than any table holds.
        """
        oracle = self._known()
        if not self.finite:
            raise InputError(
                f"{self.name}: its machine has infinitely many states: no table holds them"
            )
        try:
            return Machine.explored(oracle)
        except Endless as error:
            raise InputError(
                f"{self.name}: {error}: if there are infinitely many, write finite = False and a size"
            ) from None
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None

    def _known(self) -> Oracle:
        if self.oracle is None:
            raise InputError(f"{self.name}: the truth is known for the rows of the file alone")
        return self.oracle

    def labels(self, tokens: Tensor) -> Tensor:
        """The class of every prefix of every row, (N, T) -> (N, T)."""
        if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < len(self.vocab):
            raise InputError(f"tokens must be numbers from 0 to {len(self.vocab) - 1}")
        return torch.from_numpy(self.machine.run(tokens.cpu().numpy()).astype(np.int64)).to(
            tokens.device
        )

    def sample(self, count: int, length: int, generator: Generator) -> Tensor:
        """`count` sequences of one length, (count, length)."""
        self._known()
        self.check_length(length)
        return torch.randint(len(self.vocab), (count, length), generator=generator)

    def check_length(self, length: int) -> None:
        """Refuse a length at which the task has no question to ask."""
        if length < 1:
            raise InputError(f"{self.name}: length {length} is empty: write 1 or more")

    def has_length(self, length: int) -> bool:
        """Whether the task has a question to ask at a length."""
        try:
            self.check_length(length)
        except InputError:
            return False
        return True

    def labelled(self, tokens: Tensor) -> Examples:
        """Rows of one length with the label of every prefix; the answer is the last one."""
        answers = torch.zeros_like(tokens, dtype=torch.bool)
        answers[:, -1] = True
        return Examples(tokens, self.labels(tokens), answers)

    def examples(self, count: int, length: int, generator: Generator) -> Examples:
        """What there is to learn from: `count` sequences of one length, drawn; of a file all rows."""
        return self.labelled(self.sample(count, length, generator))

    def describe(self) -> dict[str, Any]:
        """What config.json says of the task, from which it can be found again."""
        return {"name": self.name}


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
