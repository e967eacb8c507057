"""Breadth-first search over the states of machines.

`Walk` numbers the states that it reaches and remembers how it reached them. An `Oracle` is a machine
of functions, so it may have infinitely many states. `compare` walks two oracles side by side: it either
proves that they agree on every input, or finds a shortest input on which they differ.
"""

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from csprop.errors import InputError
from csprop.progress import check_time

MOST_STATES, MOST_PAIRS = 1 << 16, 1 << 20
"""The default bounds on the states of one machine, and on the pairs of states in a comparison."""
MOST_BYTES = 1 << 28
"""A walk stops with an error where its states take more memory than this."""

State = TypeVar("State", bound=Hashable)
Moves = Iterable[tuple[int, State]]
"""Tokens, and the state to which each leads."""


class Endless(InputError):
    """A walk reached more states than its bound allows."""

    def __init__(self, states: int) -> None:
        super().__init__(f"more than {states:,} states can be reached")


OUTSIDE: Final = object()
"""The result of `Oracle.step` for an input that is not considered."""


@dataclass(frozen=True)
class Oracle:
    """A machine of functions. Its states may be any hashable values."""

    symbols: int
    start: Any
    step: Callable[[Any, int], Any]
    """(state, token) to the next state, or to OUTSIDE."""
    answer: Callable[[Any], int | None]
    """The class of every input that leads to a state; None for a start without an answer."""

    def within(self, inside: Callable[[Any], bool]) -> "Oracle":
        """Return the machine for the inputs that visit only states that are `inside`."""

        def step(state: Any, token: int) -> Any:
            after = self.step(state, token)
            return after if after is OUTSIDE or inside(after) else OUTSIDE

        return replace(self, step=step)


def every_input(symbols: int) -> Oracle:
    """Return the domain of all inputs: a single state, to which every token leads."""
    return Oracle(symbols, 0, lambda state, token: 0, lambda state: None)


class Walk(Generic[State]):
    """A breadth-first search; `order` has the states as they were reached, the start first."""

    def __init__(self, start: State) -> None:
        self.order = [start]
        self.numbers = {_checked(start): 0}
        self._before: dict[State, tuple[State, int]] = {}
        self._bytes = 0

    def run(
        self,
        following: Callable[[Sequence[State]], Iterable[Moves[State]]],
        most: int | None = MOST_STATES,
        batch: int = 1,
    ) -> "Walk[State]":
        """Visit every state that can be reached, and return this walk.

        Args:
            following: returns the tokens and next states of each of up to `batch` states.
            most: the largest number of states; None for no bound.
            batch: the largest number of states passed to `following` at once.

        Raises:
            Endless: there are more than `most` states.
        """
        done = 0
        while done < len(self.order):
            check_time()
            states = self.order[done : done + batch]
            done += len(states)
            for state, moves in zip(states, following(states), strict=True):
                for token, after in moves:
                    self._add(after, state, token)
                if most is not None and len(self.order) > most:
                    raise Endless(most)
        return self

    def _add(self, state: State, before: State, token: int) -> None:
        if _checked(state) not in self.numbers:
            self.numbers[state] = len(self.order)
            self.order.append(state)
            self._before[state] = (before, token)
            parts = state if isinstance(state, tuple) else ()
            self._bytes += sys.getsizeof(state) + sum(map(sys.getsizeof, parts))
            if self._bytes > MOST_BYTES:
                raise Endless(len(self.order) - 1)

    def way(self, state: State) -> tuple[int, ...]:
        """Return the tokens of a shortest path from the start to a state."""
        return trace_back(self._before, state)


def trace_back(before: Mapping[Any, tuple[Any, int]], state: Any) -> tuple[int, ...]:
    """Return the tokens that led to a state, from the state and token before each state."""
    tokens = []
    while state in before:
        state, token = before[state]
        tokens.append(token)
    return tuple(reversed(tokens))


def _checked(state: State) -> State:
    """Reject a state that a walk could not recognise when it meets it again."""
    try:
        hash(state)
    except TypeError:
        raise InputError(
            f"the state {state!r} cannot be hashed: use a number, a string or a tuple as a state"
        ) from None
    try:
        equal = all(part == part for part in (state if isinstance(state, tuple) else (state,)))
    except (RuntimeError, ValueError):  # a tensor, whose comparison has no single answer
        equal = False
    if not equal:
        raise InputError(
            f"the state {state!r} does not equal itself: use a value that equals itself as a state"
        )
    return state


def moves(oracle: Oracle, state: Any) -> list[tuple[int, Any]]:
    """Return each token that does not lead OUTSIDE, with the next state."""
    every = ((token, oracle.step(state, token)) for token in range(oracle.symbols))
    return [(token, after) for token, after in every if after is not OUTSIDE]


@dataclass(frozen=True)
class Difference:
    """A shortest input to which two machines give different answers."""

    tokens: tuple[int, ...]
    left: int | None
    right: int | None


@dataclass(frozen=True)
class Agreement:
    """All pairs of states that two machines reach after the same input, in the order of discovery.

    They are an invariant: the two starts are a pair, and every token leads from a pair to a pair with
    equal answers. Given the pairs, this can be checked without a search.
    """

    pairs: list[tuple[Any, Any]]


class _Differs(Exception):
    """Its arguments are the parts of a `Difference`."""


def compare(left: Oracle, right: Oracle, most: int = MOST_PAIRS) -> Agreement | Difference:
    """Compare the answers of two machines with the same tokens after every input of one or more.

    Inputs that lead either machine OUTSIDE are not considered.

    Raises:
        Endless: there are more than `most` pairs of states.
    """
    walk: Walk[Any] = Walk((left.start, right.start))

    def leave(pair: tuple[Any, Any]) -> Moves[Any]:
        for token, there in moves(right, pair[1]):
            here = left.step(pair[0], token)
            if here is OUTSIDE:
                continue
            answers = left.answer(here), right.answer(there)
            if answers[0] != answers[1]:
                raise _Differs((*walk.way(pair), token), *answers)
            yield token, (here, there)

    try:
        return Agreement(walk.run(lambda pairs: map(leave, pairs), most).order)
    except _Differs as differs:
        return Difference(*differs.args)
