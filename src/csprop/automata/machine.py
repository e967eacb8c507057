"""Finite machines as tables: a finite task, a locked model and an exported automaton are all machines.

A `Machine` is a Moore machine: each state has an output, the class of every input that leads to it. The
first output comes after the first token, so a start that is never entered again needs none.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from csprop.automata.minimal import minimise
from csprop.automata.walk import MOST_STATES, Difference, Oracle, Walk, compare, moves
from csprop.errors import InputError
from csprop.ops import backends
from csprop.ops.native.search import run_table


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A deterministic Moore machine, which gives a class after every token. All names are numbers.

    Raises:
        InputError: the tables are malformed or do not fit together.
    """

    transitions: tuple[tuple[int, ...], ...]
    """The next state: `transitions[state][token]`."""
    outputs: tuple[int | None, ...]
    """The class of each state. None is allowed for a state that no transition enters."""
    start: int = 0

    counters: ClassVar[int] = 0

    def __post_init__(self) -> None:
        for table in (self.transitions, self.outputs):
            if not isinstance(table, tuple) or not table:
                raise InputError("machine: transitions and outputs must have at least one state")
        first = self.transitions[0]
        states, size = len(self.transitions), len(first) if isinstance(first, tuple) else 0
        if not size:
            raise InputError("machine: a state must have a transition for each of its tokens")
        if len(self.outputs) != states:
            raise InputError(f"machine: there are {len(self.outputs)} outputs for {states} states")
        if states * size >= 2**32:
            raise InputError(f"machine: {states} states with {size} tokens are too many for 32 bits")
        if not all_below((self.start,), states):
            raise InputError(f"machine: the start is not one of the {states} states")
        for state, row in enumerate(self.transitions):
            if not isinstance(row, tuple) or len(row) != size:
                raise InputError(f"machine: state {state} must have {size} transitions, one per token")
            if not all_below(row, states):
                raise InputError(f"machine: state {state} leads to a state that does not exist")
        entered = set().union(*self.transitions)
        for state, output in enumerate(self.outputs):
            if output is None and state in entered:
                raise InputError(f"machine: a transition enters state {state}: it needs an output")
            if output is not None and not all_below((output,), 2**16):
                raise InputError(f"machine: state {state} has the output {output!r}: write a class")

    @classmethod
    def explore(cls, oracle: Oracle, most: int = MOST_STATES) -> "Machine":
        """Return the machine of all states that an oracle reaches, numbered in breadth-first order.

        Raises:
            Endless: there are more than `most` states.
        """
        machine, _ = tabulate(
            oracle.start, lambda states: [moves(oracle, each) for each in states], oracle.answer, most
        )
        return machine

    def __len__(self) -> int:
        return len(self.transitions)

    @property
    def symbols(self) -> int:
        return len(self.transitions[0])

    @property
    def control(self) -> "Machine":
        return self

    @property
    def oracle(self) -> Oracle:
        """The machine as functions, for `Walk` and `compare`."""
        rows, answer = self.transitions, self.outputs.__getitem__
        return Oracle(self.symbols, self.start, lambda state, token: rows[state][token], answer)

    # Running.

    def run(self, tokens: ArrayLike) -> NDArray[np.uint16]:
        """Return the class after every token of one sequence (T,), or of one per row (N, T).

        Raises:
            InputError: the tokens are not whole numbers, or one is out of range.
        """
        return self._look_up(tokens, self._outputs)

    def final(self, tokens: ArrayLike) -> int:
        """Return the class after the last token of one sequence.

        Raises:
            InputError: the sequence is empty, or a token is out of range.
        """
        classes = self.run(tokens)
        if classes.ndim != 1 or not len(classes):
            raise InputError("machine: tokens must be one sequence that is not empty")
        return int(classes[-1])

    def every(self, length: int) -> NDArray[np.uint16]:
        """Return the class after every sequence of a length of 1 or more, in lexicographic order."""
        states = np.array([self.start])
        for _ in range(length - 1):
            states = self._numbers[states].ravel()
        return self._outputs[states].ravel()

    def visit(
        self, tokens: ArrayLike, first: ArrayLike | None = None, reset: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        """Return the state after every token.

        Args:
            tokens: one sequence (T,), or one per row (N, T).
            first: the state in which each row begins; without it, the start.
            reset: (N, T), True where a row returns to the start before the token is read.
        """
        return self._look_up(tokens, self._numbers, first, reset).astype(np.int64)

    def _look_up(
        self,
        tokens: ArrayLike,
        table: NDArray[Any],
        first: ArrayLike | None = None,
        reset: NDArray[np.bool_] | None = None,
    ) -> NDArray[Any]:
        """Return the entry of a table (S, V) for every token."""
        sequences = to_sequences(tokens)
        rows = sequences[None] if sequences.ndim == 1 else sequences  # (N, T)
        states = np.broadcast_to(self.start if first is None else integers(first, "first"), len(rows))
        if len(states) and not 0 <= states.min() <= states.max() < len(self):
            raise InputError(f"machine: first must hold states, from 0 to {len(self) - 1}")
        if reset is not None and (reset.dtype != np.bool_ or reset.shape != rows.shape):
            raise InputError(f"machine: reset must be bool of shape {rows.shape}")
        begins = states.astype(np.int64) * self.symbols
        # The kernel takes one call per row, NumPy one per column.
        natively = backends.backend() == "native" and table.dtype == np.uint16 and reset is None
        if natively and rows.shape[1] > len(rows):
            out = np.empty(rows.shape, table.dtype)
            for row, begin, here in zip(rows, begins.tolist(), out, strict=True):
                _, bad = run_table(self._begins, table, self.symbols, begin, row, here)
                if bad >= 0:
                    self._refuse(row, bad)
        else:
            out = self._run_columns(table, rows, begins, reset)
        return out[0] if sequences.ndim == 1 else out

    def _run_columns(
        self,
        table: NDArray[Any],
        rows: NDArray[Any],
        here: NDArray[np.int64],
        reset: NDArray[np.bool_] | None,
    ) -> NDArray[Any]:
        """Run all rows side by side; `here` is the index at which each row's state begins."""
        outside = (rows < 0) | (rows >= self.symbols)
        if outside.any():
            row, position = divmod(int(outside.argmax()), rows.shape[1])
            self._refuse(rows[row], position)
        # The rows of the table are concatenated and a state is the index of its row: a step is one
        # addition and one look-up, and a single row of a million tokens takes about a second.
        begins, entries = self._begins.ravel().astype(np.int64), table.ravel()
        columns = np.ascontiguousarray(rows.T, np.int64)  # (T, N)
        out = np.empty(columns.shape, table.dtype)
        for t, column in enumerate(columns):
            if reset is not None:
                here[reset[:, t]] = self.start * self.symbols
            place = here + column
            out[t], here = entries[place], begins[place]
        return np.ascontiguousarray(out.T)

    def _refuse(self, sequence: NDArray[Any], position: int) -> None:
        raise InputError(
            f"machine: token {sequence[position]} at position {position + 1} is out of range: "
            f"write 0 to {self.symbols - 1}"
        )

    @cached_property
    def _begins(self) -> NDArray[np.uint32]:
        """The index at which the row of the next state begins, (S, V)."""
        return np.array(self.transitions, np.uint32) * np.uint32(self.symbols)

    @cached_property
    def _numbers(self) -> NDArray[Any]:
        """The transitions, (S, V), in 16 bits if they fit, for the kernel."""
        return np.array(self.transitions, np.uint16 if len(self) <= 2**16 else np.int64)

    @cached_property
    def _outputs(self) -> NDArray[np.uint16]:
        """The class after each transition, (S, V)."""
        outputs = np.array([0 if output is None else output for output in self.outputs], np.uint16)
        return outputs[np.array(self.transitions)]

    # Minimising and comparing.

    def minimal(self) -> Self:
        """Return the minimal machine with the same answers; it is the same for equivalent machines."""
        start, transitions, outputs = minimise(self.start, self.transitions, self.outputs)
        return replace(self, start=start, transitions=transitions, outputs=outputs)

    def difference(self, other: "Machine") -> Difference | None:
        """Return a shortest input to which the two machines give different answers, or None."""
        if self.symbols != other.symbols:
            raise InputError("machine: only machines with the same tokens can be compared")
        # Minimal machines meet in fewer pairs of states.
        result = compare(self.minimal().oracle, other.minimal().oracle)
        return result if isinstance(result, Difference) else None


def tabulate(
    start: Any,
    following: Callable[[Sequence[Any]], Iterable[Iterable[tuple[int, Any]]]],
    answer: Callable[[Any], int | None],
    most: int = MOST_STATES,
    batch: int = 1,
) -> tuple[Machine, list[Any]]:
    """Return the machine of all states that `Walk.run` reaches, and the states by their numbers in it.

    Every token must lead to a state. `answer` returns the class of a state, None for some starts.
    """
    rows: list[list[Any]] = []

    def record(states: Sequence[Any]) -> Iterable[Iterable[tuple[int, Any]]]:
        for leaving in following(states):
            rows.append([after for _, after in leaving])
            yield enumerate(rows[-1])

    walk = Walk(start).run(record, most, batch)
    transitions = tuple(tuple(walk.numbers[after] for after in row) for row in rows)
    return Machine(transitions=transitions, outputs=tuple(map(answer, walk.order))), walk.order


def all_below(numbers: Iterable[Any], limit: int) -> bool:
    """Return True if all values are integers from 0 to limit − 1; booleans are not integers here."""
    values = list(numbers)
    return set(map(type, values)) <= {int} and min(values) >= 0 and max(values) < limit


def integers(values: Any, what: str) -> NDArray[Any]:
    """Convert values to an array of integers, or raise an InputError that names them by `what`."""
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError, TypeError, RuntimeError):  # such as rows of different lengths
        array = np.empty(0, object)
    if not array.size and array.dtype == np.float64:  # an empty list
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InputError(f"machine: {what} must be whole numbers, in rows of equal length")
    return array


def to_sequences(tokens: Any) -> NDArray[Any]:
    """Convert one sequence, or one per row, to a contiguous array of uint8 or int64 for the kernel."""
    array = integers(tokens, "tokens")
    if array.ndim not in (1, 2):
        raise InputError(f"machine: tokens must have one or two dimensions, not {array.ndim}")
    # An unsigned number that is too large for int64 becomes negative, which is rejected.
    return np.ascontiguousarray(array, None if array.dtype == np.uint8 else np.int64)
