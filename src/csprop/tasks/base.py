"""The base class of tasks: sequences of tokens, and the class of each."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.automata.walk import Endless, Oracle
from csprop.data.draws import Draws, TorchDraws, Whole
from csprop.data.examples import Examples
from csprop.errors import InputError

if TYPE_CHECKING:
    from torch import Generator, Tensor


class Task(ABC):
    """Something to learn: sequences of tokens, and the class of each.

    To define a task, subclass this and define the correct answer twice: `truth` is the definition, for
    a whole sequence, and `start`, `step` and `answer` are a state machine that reads one token at a
    time. States may be any hashable values. Such a task has an `oracle`: sequences of any length
    can be drawn and labelled. A file of labelled rows is a task without an oracle.
    """

    name: str
    """A name that no built-in task has."""
    description: str
    """The question that the task asks, for tables and certificates."""
    vocab: tuple[str, ...]
    """The names of the tokens; token i is `vocab[i]`."""
    classes: tuple[str, ...]
    """The names of the classes."""
    words: bool = False
    """True if a sequence is written as words separated by spaces, rather than as characters."""

    # What the task asks of a model and of training.
    preset: str = "rotor"
    """The preset that suits the task: `rotor`, `router` for a machine of any kind, or `counter` where
    no finite machine solves it."""
    samples: int = 5000
    """The number of sequences to draw, before the split; the default is the paper's number."""
    length: int = 16
    """Length of the sequences that training draws, unless it is given another one; the paper's T."""
    order: int = 2
    """Order of the rotations that the preset `rotor` uses: 2 for counters, more for groups."""
    depth: int = 1
    """Number of layers that the preset `rotor` uses."""
    places: int = 32
    """Number of places that the preset `router` uses: more than the machine has states."""
    finite: bool = True
    """True if the machine has finitely many states that can be reached."""
    total: bool = True
    """True if every sequence has an answer. If only some do (`WholeTask`), there is no proof."""
    loss: Literal["cross_entropy", "focal"] = "cross_entropy"
    """The loss that the preset `paper` uses."""

    # What the paper reports about it.
    metric: Literal["accuracy", "f1"] = "accuracy"
    """The paper's metric."""
    paper_epochs: str = ""
    """Epochs to 100% according to the paper's Table 2, its text, and its Figure 3."""
    paper_gap: str = ""
    """Epochs from 90% to 100% according to the paper, mean and standard deviation."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @abstractmethod
    def truth(self, sequence: Sequence[int]) -> int:
        """Return the class of a whole sequence: the definition of the task, written for clarity."""

    @abstractmethod
    def start(self) -> Hashable:
        """Return the state before the first token."""

    @abstractmethod
    def step(self, state: Any, token: int) -> Hashable:
        """Return the state after one more token."""

    @abstractmethod
    def answer(self, state: Any) -> int:
        """Return the class of any sequence that leads to this state."""

    def size(self, state: Any) -> int:
        """Return the depth of a state, for a task with infinitely many states.

        Only finitely many states may have the same or a smaller depth: the inputs up to a depth
        form a finite task.
        """
        return 0

    @property
    def oracle(self) -> Oracle | None:
        """The task as a state machine, against which proofs are made; None for a data file."""
        return Oracle(len(self.vocab), self.start(), self.step, self._answer)

    def _answer(self, state: Any) -> int:
        answer = self.answer(state)
        with suppress(TypeError):
            if 0 <= operator.index(answer) < len(self.classes):
                return operator.index(answer)
        raise InputError(
            f"{self.name}: answer() returned {answer!r} for the state {state!r}: return the number of "
            f"a class, from 0 to {len(self.classes) - 1}"
        )

    @cached_property
    def counting(self) -> CounterMachine | None:
        """The task as a machine that counts, if it has infinitely many states (`CountingTask`)."""
        return None

    @property
    def data(self) -> Examples:
        """The labelled rows of a data file.

        Raises:
            InputError: the task is not a data file, or the file has changed.
        """
        raise InputError(f"{self.name}: is not a data file and has no rows: draw some with examples()")

    @property
    def source(self) -> str:
        """The origin of the correct answers: the name of the task, or of the data file."""
        return self.name

    @cached_property
    def machine(self) -> Machine:
        """The oracle as a table of transitions.

        Raises:
            InputError: there are infinitely or too many states, or the task is a data file.
        """
        oracle = self._known()
        if not self.finite:
            raise InputError(f"{self.name}: has infinitely many states, which no table can hold")
        try:
            return Machine.explore(oracle)
        except Endless as error:
            raise InputError(
                f"{self.name}: {error}: if there are infinitely many, set finite = False and define "
                "size()"
            ) from None
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None

    def _known(self) -> Oracle:
        if self.oracle is None:
            raise InputError(f"{self.name}: the correct class is known only for the rows of the file")
        return self.oracle

    def labels(self, tokens: "Tensor") -> "Tensor":
        """Return the class of every prefix of every row.

        Args:
            tokens: (N, T) int64.

        Returns:
            The classes, (N, T) int64.

        Raises:
            InputError: a token is outside of the vocabulary.
        """
        import torch

        if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < len(self.vocab):
            raise InputError(f"{self.name}: tokens must be numbers from 0 to {len(self.vocab) - 1}")
        return torch.from_numpy(self.classify(tokens.cpu().numpy())).to(tokens.device)

    def classify(self, tokens: Whole) -> Whole:
        """Return the class of every prefix of every row, in arrays of NumPy; tokens are not checked."""
        machine = self.machine if self.counting is None else self.counting
        return machine.run(tokens).astype(np.int64)

    def every_label(self, length: int) -> "Tensor":
        """Return the class of every sequence of a length, in lexicographic order, (V^length,) int64."""
        import torch

        own = type(self).labels is not Task.labels or type(self).classify is not Task.classify
        if self.counting is not None or own:
            return self.labels(every_sequence(len(self.vocab), length))[:, -1]
        return torch.from_numpy(self.machine.every(length).astype(np.int64))

    def sample(self, count: int, length: int, generator: "Generator") -> "Tensor":
        """Draw `count` sequences of one length, (count, length) int64; uniformly, unless overridden."""
        import torch

        return torch.from_numpy(self.draw(count, length, TorchDraws(generator)))

    def draw(self, count: int, length: int, draws: Draws) -> Whole:
        """Return the same in arrays of NumPy, from any source of random numbers."""
        self._known()
        self.check_length(length)
        return draws.below(len(self.vocab), (count, length))

    def check_length(self, length: int) -> None:
        """Raise an InputError for a length at which the task is not defined."""
        if length < 1:
            raise InputError(f"{self.name}: length {length} is too short: write 1 or more")

    def has_length(self, length: int) -> bool:
        """Return True if the task is defined at a length."""
        try:
            self.check_length(length)
        except InputError:
            return False
        return True

    def length_from(self, least: int) -> int:
        """Return the first length from `least` on at which the task is defined."""
        return next(filter(self.has_length, range(least, 2 * least + 8)), least)

    def labelled(self, tokens: "Tensor") -> Examples:
        """Label sequences (N, T): every prefix gets its class, and the last class is the answer."""
        answers = tokens.new_zeros(tokens.shape).bool()
        answers[:, -1] = True
        return Examples.from_matrices(tokens, self.labels(tokens), answers)

    def examples(self, count: int, length: int, generator: "Generator") -> Examples:
        """Data to learn from: `count` drawn sequences of one length, or all rows of a data file."""
        return self.labelled(self.sample(count, length, generator))

    def text(self, sequence: Iterable[int]) -> str:
        """Return the names of tokens as one string."""
        return "".join(self.vocab[token] for token in sequence)

    def describe(self) -> dict[str, Any]:
        """Return the task as config.json stores it; `from_description` is the inverse."""
        return {"name": self.name}


def every_sequence(symbols: int, length: int) -> "Tensor":
    """Return all `symbols`^`length` sequences in lexicographic order, (symbols^length, length)."""
    import torch

    if length < 2:
        return torch.arange(symbols**length)[:, None][:, :length]
    first, last = every_sequence(symbols, length // 2), every_sequence(symbols, length - length // 2)
    pairs = first[:, None].expand(-1, len(last), -1), last.expand(len(first), -1, -1)
    return torch.cat(pairs, dim=2).flatten(0, 1)
