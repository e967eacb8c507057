"""The base class of tasks: sequences of tokens, and the class of each."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.automata.walk import Endless, Oracle
from csprop.data.draws import Draws, TorchDraws, Whole
from csprop.data.examples import Examples
from csprop.data.names import split_symbols
from csprop.errors import InputError

if TYPE_CHECKING:
    from torch import Generator, Tensor

ENDLESS = 1 << 62
"""The end of a range that has no end."""


class Task(ABC):
    """Something to learn: sequences of tokens, and the class of each.

    To define a task, subclass this and define the correct answer twice: `truth` is the definition, for
    a whole sequence, and `start`, `step` and `answer` are a state machine that reads one token at a
    time. States may be any hashable values. Such a task has an `oracle`: sequences of any length can be
    drawn, by `_draw`, and labelled. A file of labelled rows is a task without an oracle.
    """

    name: str
    """A name that no built-in task has."""
    description: str
    """The question that the task asks, for tables and certificates."""
    vocab: tuple[str, ...]
    """The names of the tokens; token i is `vocab[i]`."""
    classes: tuple[str, ...] = ("no", "yes")
    words: bool = False
    """True if a sequence is written as words separated by spaces, rather than as characters."""
    lengths: range = range(1, ENDLESS)
    """The lengths of its sequences."""

    # What the task asks of a model and of training.
    preset: str = "tracker"
    """The preset that suits the task; `tracker`, which needs no hint, if none is named."""
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

    # The paper's loss and metric, and its results.
    loss: Literal["cross_entropy", "focal"] = "cross_entropy"
    metric: Literal["accuracy", "f1"] = "accuracy"
    paper_epochs: str = ""
    """Epochs to 100% according to the paper's Table 2, its text, and its Figure 3."""
    paper_gap: str = ""
    """Epochs from 90% to 100% according to the paper, mean and standard deviation."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @abstractmethod
    def truth(self, sequence: Sequence[int]) -> int:
        """Return the class of a whole sequence: the definition of the task, written for clarity."""

    def start(self) -> Hashable:
        """Return the state before the first token; 0, unless overridden."""
        return 0

    @abstractmethod
    def step(self, state: Any, token: int) -> Hashable:
        """Return the state after one more token."""

    def answer(self, state: Any) -> int:
        """Return the class of sequences that lead to a state; the state itself, unless overridden."""
        return state

    def size(self, state: Any) -> int:
        """Return the depth of a state; only finitely many states may have the same or a smaller one."""
        return 0

    @property
    def oracle(self) -> Oracle | None:
        """The task as a state machine, against which proofs are made; None for a data file."""
        return Oracle(len(self.vocab), self.start(), self.step, self._answer)

    def _answer(self, state: Any) -> int:
        answer = self.answer(state)
        if not isinstance(answer, int | np.integer) or answer not in range(len(self.classes)):
            raise InputError(
                f"{self.name}: answer() returned {answer!r} for the state {state!r}: return the number "
                f"of a class, from 0 to {len(self.classes) - 1}"
            )
        return int(answer)

    @cached_property
    def counting(self) -> CounterMachine | None:
        """The task as a machine that counts, if it has infinitely many states (`CountingTask`)."""
        return None

    @property
    def data(self) -> Examples:
        """The labelled rows of a data file; an InputError if the task is not one, or it has changed."""
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
        if self.oracle is None:
            raise InputError(f"{self.name}: the correct class is known only for the rows of the file")
        if not self.finite:
            raise InputError(f"{self.name}: has infinitely many states, which no table can hold")
        try:
            return Machine.explore(self.oracle)
        except InputError as error:
            endless = ": if there are infinitely many, set finite = False and define size()"
            advice = endless if isinstance(error, Endless) else ""
            raise InputError(f"{self.name}: {error}{advice}") from None

    def labels(self, tokens: "Tensor") -> "Tensor":
        """Return the class of every prefix of every row, (N, T) int64.

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
        """Draw `count` sequences of one length, (count, length) int64."""
        import torch

        return torch.from_numpy(self.draw(count, length, TorchDraws(generator)))

    def draw(self, count: int, length: int, draws: Draws) -> Whole:
        """Return the same in arrays of NumPy, from any source of random numbers."""
        self.check_length(length)
        return self._draw(count, length, draws)

    def _draw(self, count: int, length: int, draws: Draws) -> Whole:
        """Draw as `draw` does, at a length that the task has; uniformly, unless overridden."""
        return draws.below(len(self.vocab), (count, length))

    def check_length(self, length: int) -> None:
        """Raise an InputError if the task has no sequences of this length."""
        if length not in self.lengths:
            longer = self.length_from(length)
            raise InputError(f"{self.name}: has no sequences of length {length}: write {longer}")

    def length_from(self, least: int) -> int:
        """Return the first length from `least` on at which the task has sequences, or its last one."""
        first, step = self.lengths.start, self.lengths.step
        return min(max(first, least + (first - least) % step), self.lengths[-1])

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

    def classify_text(self, text: str) -> str:
        """Return the name of the class of a written sequence, by `truth`."""
        symbols = split_symbols(text, self.words)
        for each in symbols:
            if each not in self.vocab:
                raise InputError(f"{self.name}: {each!r} is not a token: write {', '.join(self.vocab)}")
        return self.classes[self.truth([self.vocab.index(each) for each in symbols])]

    def describe(self) -> dict[str, Any]:
        """Return the task as config.json stores it; `from_description` is the inverse."""
        return {"name": self.name}


def every_sequence(symbols: int, length: int) -> "Tensor":
    """Return all `symbols`^`length` sequences in lexicographic order, (symbols^length, length)."""
    import torch

    places = symbols ** torch.arange(length - 1, -1, -1)
    return torch.arange(symbols**length)[:, None] // places % symbols
