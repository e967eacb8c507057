"""A finite machine as a table: what a task is, what a locked model has become, what is exported.

It is a Moore machine: each state has an output, the class of every input that leads there. The first
output comes after the first token, so a start that nothing leads back to needs none.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from csprop.automata.minimal import merged
from csprop.automata.walk import MOST_STATES, Difference, Oracle, Walk, compare, moves
from csprop.errors import InputError
from csprop.ops import backends, native


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A deterministic machine that answers after every token. States, tokens, classes are numbers."""

    transitions: tuple[tuple[int, ...], ...]
    """[state][token] -> state."""
    outputs: tuple[int | None, ...]
    """[state] -> class. None: the start, if it has no answer; then nothing may lead to it."""
    start: int = 0

    def __post_init__(self) -> None:
        for rows in (self.transitions, self.outputs):
            if not isinstance(rows, tuple) or not rows:
                raise InputError("machine: there must be at least one state, in tuples")
        first = self.transitions[0]
        states, size = len(self.transitions), len(first) if isinstance(first, tuple) else 0
        if not size:
            raise InputError("machine: there must be at least one token, and a transition for it")
        if len(self.outputs) != states:
            raise InputError(f"machine: {len(self.outputs)} outputs for {states} states")
        if states * size >= 2**32:
            raise InputError(
                f"machine: {states} states of {size} tokens are more than 2^32 transitions"
            )
        if not all_below((self.start,), states):
            raise InputError(f"machine: the start {self.start!r} is not one of the {states} states")
        for state, row in enumerate(self.transitions):
            if not isinstance(row, tuple) or len(row) != size:
                raise InputError(f"machine: state {state} must have {size} transitions, one a token")
            if not all_below(row, states):
                raise InputError(f"machine: state {state} leads to a state that is not there")
        entered = set().union(*self.transitions)
        for state, output in enumerate(self.outputs):
            if output is None:
                if state in entered:
                    raise InputError(f"machine: state {state} can be entered but has no output")
            elif not all_below((output,), 2**16):
                raise InputError(f"machine: state {state} has the output {output!r}, which is no class")

    @classmethod
    def explored(cls, oracle: Oracle, most: int = MOST_STATES) -> "Machine":
        """All states that an oracle reaches, numbered in the order of their discovery.

        Raises:
            Endless: there are more than `most` of them.
        """
        machine, _ = tabulated(
            oracle.start, lambda states: [moves(oracle, each) for each in states], oracle.answer, most
        )
        return machine

    def __len__(self) -> int:
        """How many states there are."""
        return len(self.transitions)

    @property
    def symbols(self) -> int:
        """How many tokens there are."""
        return len(self.transitions[0])

    @property
    def oracle(self) -> Oracle:
        """The machine as functions, for a walk."""
        transitions = self.transitions
        return Oracle(
            self.symbols, self.start, lambda state, token: transitions[state][token],
            self.outputs.__getitem__,
        )  # fmt: skip

    # Running.

    def run(self, tokens: ArrayLike) -> NDArray[np.uint16]:
        """The class after every token of a sequence (T,), or of each row (N, T).

        Raises:
            InputError: a token is none of the machine's, or the tokens are not whole numbers.
        """
        return self._walked(tokens, self._outputs, None)

    def final(self, tokens: ArrayLike) -> int:
        """The class after the last token of a sequence."""
        sequence = _sequences(tokens)
        if sequence.ndim != 1 or not len(sequence):
            raise InputError("machine: empty, or several sequences: give one of at least one token")
        output = self.outputs[self._last(sequence)]
        assert output is not None  # only what nothing leads to has none
        return output

    def visit(
        self, tokens: ArrayLike, first: ArrayLike | None = None, reset: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        """The state after every token of a sequence (T,), or of each row (N, T).

        Args:
            first: the state that each row begins in; without it, the start.
            reset: (N, T), where a row begins again from the start before a token.
        """
        return self._walked(tokens, self._numbers, first, reset).astype(np.int64)

    def _walked(
        self,
        tokens: ArrayLike,
        table: NDArray[Any],
        first: ArrayLike | None,
        reset: NDArray[np.bool_] | None = None,
    ) -> NDArray[Any]:
        """An entry of a table (S, V) for every token."""
        given = _sequences(tokens)
        rows = given[None] if given.ndim == 1 else given  # (N, T)
        states = np.broadcast_to(self.start if first is None else np.asarray(first), len(rows))
        out = np.empty(rows.shape, table.dtype)
        # By the kernel a row costs a call, and by NumPy a column does.
        natively = backends.backend() == "native" and table.dtype == np.uint16 and reset is None
        if natively and rows.shape[1] > len(rows):
            for row, state, here in zip(rows, states.tolist(), out, strict=True):
                self._native(table, row, state, here)
        else:
            self._by_columns(table, rows, states, out, reset)
        return out[0] if given.ndim == 1 else out

    def _by_columns(
        self,
        table: NDArray[Any],
        rows: NDArray[Any],
        states: NDArray[Any],
        out: NDArray[Any],
        reset: NDArray[np.bool_] | None,
    ) -> None:
        outside = (rows < 0) | (rows >= self.symbols)
        if outside.any():
            row, position = divmod(int(outside.argmax()), rows.shape[1])
            self._refuse(rows[row], position)
        # The table's rows laid end to end, each state named by where its row begins: a step is then
        # one sum and one look-up, which keeps a single row of a million tokens at about a second.
        begins, entries = self._begins.ravel().astype(np.int64), table.ravel()
        columns = np.ascontiguousarray(rows.T, np.int64)  # (T, N)
        made = np.empty(columns.shape, table.dtype)
        here = np.array(states, np.int64) * self.symbols  # (N,)
        for t, column in enumerate(columns):
            if reset is not None:
                here[reset[:, t]] = self.start * self.symbols
            place = here + column
            made[t], here = entries[place], begins[place]
        out[:] = made.T

    def _last(self, sequence: NDArray[Any]) -> int:
        """The state after the last token."""
        if backends.backend() == "native":
            return self._native(self._outputs, sequence, self.start, None)
        return int(self.visit(sequence)[-1])

    def _native(
        self, table: NDArray[Any], sequence: NDArray[Any], state: int, out: NDArray[Any] | None
    ) -> int:
        """By the compiled kernel: entries of the table into `out`; the state after the last token."""
        row, bad = native.run_table(
            self._begins, table, self.symbols, state * self.symbols, sequence, out
        )
        if bad >= 0:
            self._refuse(sequence, bad)
        return row // self.symbols

    def _refuse(self, sequence: NDArray[Any], position: int) -> None:
        raise InputError(
            f"machine: token {sequence[position]} at position {position + 1} is none of the "
            f"{self.symbols} tokens, which count from 0"
        )

    @cached_property
    def _begins(self) -> NDArray[np.uint32]:
        """Where the row of the next state begins, (S, V)."""
        return np.array(self.transitions, np.uint32) * np.uint32(self.symbols)

    @cached_property
    def _numbers(self) -> NDArray[Any]:
        """The transitions, for the kernel where their numbers fit it, (S, V)."""
        return np.array(self.transitions, np.uint16 if len(self) <= 2**16 else np.int64)

    @cached_property
    def _outputs(self) -> NDArray[np.uint16]:
        """What is answered after each move, (S, V)."""
        said = np.array([0 if output is None else output for output in self.outputs], np.uint16)
        return said[np.array(self.transitions)]

    # Minimising and comparing.

    def minimal(self) -> Self:
        """The smallest machine with the same answers; of equivalent machines it is the very same one.

        What the start itself answers makes no difference, as the first answer comes after the first
        token. So the start is taken apart as a state without an output, and united in the end with a
        state that goes on in the same way: the one of the first class, should there be several.
        """
        start, transitions, outputs = merged(self.start, self.transitions, self.outputs)
        return replace(self, start=start, transitions=transitions, outputs=outputs)

    def difference(self, other: "Machine") -> Difference | None:
        """The shortest input that the two answer differently; None where there is none."""
        if self.symbols != other.symbols:
            raise InputError("machine: only machines with the same tokens can be compared")
        # Minimal machines meet in fewer pairs of states.
        found = compare(self.minimal().oracle, other.minimal().oracle)
        return found if isinstance(found, Difference) else None


def tabulated(
    start: Any,
    following: Callable[[Sequence[Any]], Iterable[Iterable[tuple[int, Any]]]],
    answer: Callable[[Any], int | None],
    most: int = MOST_STATES,
    batch: int = 1,
) -> tuple[Machine, list[Any]]:
    """Everything that a walk reaches as a machine, and the states by their numbers in it.

    From each state every token must lead somewhere; the arguments are those of `Walk.run`.
    """
    rows: list[list[Any]] = []

    def recorded(states: Sequence[Any]) -> Iterable[Iterable[tuple[int, Any]]]:
        for leaving in following(states):
            rows.append([after for _, after in leaving])
            yield enumerate(rows[-1])

    walk = Walk(start).run(recorded, most, batch)
    transitions = tuple(tuple(walk.numbers[after] for after in row) for row in rows)
    return Machine(transitions=transitions, outputs=tuple(map(answer, walk.order))), walk.order


def all_below(numbers: Iterable[Any], limit: int) -> bool:
    """Whether these are whole numbers from 0 up to the limit; True and False are none."""
    listed = list(numbers)
    return set(map(type, listed)) <= {int} and min(listed) >= 0 and max(listed) < limit


def integers(values: Any, what: str) -> NDArray[Any]:
    """An array of whole numbers."""
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError, TypeError, RuntimeError):  # rows of different lengths, for one
        array = np.empty(0, object)
    if not array.size and array.dtype == np.float64:  # an empty list
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InputError(f"machine: {what} must be whole numbers, in rows of one length")
    return array


def _sequences(tokens: Any) -> NDArray[Any]:
    """One sequence or rows of them, uint8 or int64 without gaps, as the kernel reads it."""
    array = integers(tokens, "tokens")
    if array.ndim not in (1, 2):
        raise InputError(f"machine: tokens must be a sequence or rows, not {array.ndim} dimensions")
    # Where an unsigned number is too large for int64 it turns negative, and is refused as that.
    return np.ascontiguousarray(array, None if array.dtype == np.uint8 else np.int64)
