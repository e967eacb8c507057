"""Machines that count: a finite control, and counters that every token changes by whole numbers.

A counter begins at 0, and a token adds its increment to it, whatever the state is. The control sees the
counters through a window: c is seen as it is from −w to w, and beyond as −w or w. So it is a finite
`Machine` over pairs of a token and a view of the counters after it:

    c_t = c_{t−1} + increments[token]          k whole numbers
    v_t = the number of the view of c_t        0 to (2w + 1)^k − 1, the last counter counts fastest
    q_t = control[q_{t−1}][token, v_t]         the token and the view are one symbol: token·views + v_t

and the answer is the output of q_t. With w = 1 a counter is seen as negative, zero or positive.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from csprop.automata.machine import Machine, to_sequences
from csprop.automata.walk import Oracle
from csprop.errors import InputError

MOST_COUNT = 2**62
"""Counts are 64-bit numbers; a sequence that could lead beyond this is refused."""


@dataclass(frozen=True, kw_only=True)
class CounterMachine:
    """A deterministic machine with counters, which gives a class after every token.

    Raises:
        InputError: the parts are malformed or do not fit together.
    """

    increments: tuple[tuple[int, ...], ...]
    """The number that each token adds to each counter: `increments[token][counter]`."""
    window: int
    control: Machine

    def __post_init__(self) -> None:
        rows = self.increments
        if not (isinstance(rows, tuple) and rows and all(isinstance(row, tuple) for row in rows)):
            raise InputError("counter machine: increments must be a tuple of tuples, one per token")
        if len({len(row) for row in rows}) > 1:
            raise InputError("counter machine: every token needs an increment for each counter")
        if any(type(each) is not int or abs(each) > 2**31 for row in rows for each in row):
            raise InputError("counter machine: increments must be whole numbers up to 2^31")
        if type(self.window) is not int or self.window < 0:
            raise InputError(
                f"counter machine: window={self.window!r} must be a whole number from 0 on"
            )
        if self.symbols * self.views > 2**20:
            raise InputError("counter machine: there are more than 2^20 pairs of a token and a view")
        if self.control.symbols != self.symbols * self.views:
            raise InputError(
                f"counter machine: the control reads {self.control.symbols} symbols, but "
                f"{self.symbols} tokens with {self.views} views are {self.symbols * self.views}"
            )

    @classmethod
    def explore(
        cls,
        increments: tuple[tuple[int, ...], ...],
        start: Hashable,
        step: Callable[[Any, int, tuple[int, ...]], Hashable],
        answer: Callable[[Any, tuple[int, ...]], int],
        window: int = 1,
    ) -> "CounterMachine":
        """Return the machine with a control of functions.

        Args:
            increments: what each token adds to each counter.
            start: the control's state before the first token.
            step: the state after a token, from the state before, the token, and the counts after it.
            answer: the class, from the state after a token and these counts.
            window: the functions see counts from −window to window, and beyond as these.
        """
        views = list(product(range(-window, window + 1), repeat=len(increments[0])))

        def move(state: Any, symbol: int) -> Any:
            token, view = divmod(symbol, len(views))
            after = step(state[0], token, views[view])
            return after, answer(after, views[view])

        oracle = Oracle(len(increments) * len(views), (start, None), move, lambda state: state[1])
        return cls(increments=increments, window=window, control=Machine.explore(oracle).minimal())

    def __len__(self) -> int:
        return len(self.control)

    @property
    def symbols(self) -> int:
        return len(self.increments)

    @property
    def counters(self) -> int:
        return len(self.increments[0])

    @property
    def views(self) -> int:
        """The number of different views of all counters."""
        return (2 * self.window + 1) ** self.counters

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the control's table: states, tokens, and an axis for each counter."""
        return (len(self), self.symbols, *(2 * self.window + 1,) * self.counters)

    def view(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of the view of some counts, (..., counters)."""
        clipped = np.clip(counts, -self.window, self.window) + self.window
        places = (2 * self.window + 1) ** np.arange(self.counters - 1, -1, -1)
        return (clipped * places).sum(axis=-1)

    @property
    def oracle(self) -> Oracle:
        """The machine as functions; a state is a state of the control and the counts."""
        increments, control, views = self.increments, self.control, self.views
        window, size = self.window, 2 * self.window + 1

        def step(state: tuple[int, tuple[int, ...]], token: int) -> tuple[int, tuple[int, ...]]:
            counts, view = tuple(map(int.__add__, state[1], increments[token])), 0
            for count in counts:
                view = view * size + min(max(count, -window), window) + window
            return control.transitions[state[0]][token * views + view], counts

        start = (control.start, (0,) * self.counters)
        return Oracle(self.symbols, start, step, lambda state: control.outputs[state[0]])

    def run(self, tokens: ArrayLike) -> NDArray[np.uint16]:
        """Return the class after every token of one sequence (T,), or of one per row (N, T).

        Raises:
            InputError: the tokens are not whole numbers, one is out of range, or a count could become
                too large.
        """
        array = to_sequences(tokens).astype(np.int64)
        if array.size and not 0 <= array.min() <= array.max() < self.symbols:
            raise InputError(f"machine: a token is out of range: write 0 to {self.symbols - 1}")
        largest = max((abs(each) for row in self.increments for each in row), default=0)
        if array.shape[-1] * largest > MOST_COUNT:
            raise InputError("counter machine: the sequence is so long that a count could exceed 2^62")
        added = np.array(self.increments, np.int64).reshape(self.symbols, self.counters)[array]
        return self.control.run(array * self.views + self.view(added.cumsum(axis=-2)))

    def final(self, tokens: ArrayLike) -> int:
        """Return the class after the last token of one sequence."""
        classes = self.run(tokens)
        if classes.ndim != 1 or not len(classes):
            raise InputError("machine: tokens must be one sequence that is not empty")
        return int(classes[-1])

    def reduce(self) -> Self:
        """Return a machine with the same answers, and fewer counters, states and views if possible."""
        from csprop.automata.reduction import reduce_machine  # which imports this module

        return reduce_machine(self)
