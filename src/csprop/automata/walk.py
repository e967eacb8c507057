"""The one walk over states: breadth first, from a start, until nothing new is found.

`Walk` numbers what it reaches and remembers how. An `Oracle` is a machine that is computed while it is
walked, so it may have infinitely many states. `compare` walks two oracles side by side: that is the
proof that two machines agree on every input, and the search for the shortest one on which they differ.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from csprop.errors import InputError

MOST_STATES = 1 << 16
"""That exploring gives up after."""
MOST_PAIRS = 1 << 20
"""Of states, that a comparison gives up after."""

State = TypeVar("State", bound=Hashable)
Moves = Iterable[tuple[int, State]]
"""Tokens, and the state that each leads to."""


class Endless(InputError):
    """A walk met more states than its bound allows."""

    def __init__(self, most: int) -> None:
        super().__init__(f"more than {most:,} states can be reached")
        self.most = most


class _Outside:
    def __repr__(self) -> str:
        return "OUTSIDE"


OUTSIDE: Final = _Outside()
"""What `Oracle.step` gives for an input that is left out of account."""


@dataclass(frozen=True)
class Oracle:
    """A machine given by functions. Its states are any values that can be hashed."""

    symbols: int
    """Tokens are the numbers from 0 up to this."""
    start: Any
    step: Callable[[Any, int], Any]
    """(state, token) to the state that follows, or OUTSIDE."""
    answer: Callable[[Any], int | None]
    """The class of every input that leads to a state; None at a start that has none."""

    def within(self, inside: Callable[[Any], bool]) -> "Oracle":
        """The same machine, with every input left out that leads to a state which is not inside."""

        def step(state: Any, token: int) -> Any:
            after = self.step(state, token)
            return after if after is OUTSIDE or inside(after) else OUTSIDE

        return replace(self, step=step)


def every_input(symbols: int) -> Oracle:
    """The domain that leaves no input out: one state, to which every token leads."""
    return Oracle(symbols, 0, lambda state, token: 0, lambda state: None)


class Walk(Generic[State]):
    """States in the order in which they are reached, the start first."""

    def __init__(self, start: State) -> None:
        self.order = [start]
        self.numbers = {_checked(start): 0}
        self._before: dict[State, tuple[State, int]] = {}

    def run(
        self,
        following: Callable[[Sequence[State]], Iterable[Moves[State]]],
        most: int | None = MOST_STATES,
        batch: int = 1,
    ) -> "Walk[State]":
        """Reach everything.

        Args:
            following: gives the moves of each of some states, at most `batch` of them.
            most: how many states there may be; None for no bound.

        Raises:
            Endless: there are more.
            InputError: a state cannot be hashed, or does not equal itself.
        """
        done = 0
        while done < len(self.order):
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

    def way(self, state: State) -> tuple[int, ...]:
        """The tokens of a shortest way from the start."""
        tokens = []
        while state in self._before:
            state, token = self._before[state]
            tokens.append(token)
        return tuple(reversed(tokens))


def _checked(state: State) -> State:
    """Refuse what a walk could never recognise."""
    try:
        hash(state)
    except TypeError:
        raise InputError(
            f"the state {state!r} cannot be hashed: use a tuple, a number or a string for a state"
        ) from None
    if state != state:
        raise InputError(f"the state {state!r} does not equal itself, so that no walk can end")
    return state


def moves(oracle: Oracle, state: Any) -> list[tuple[int, Any]]:
    """Each token that is not left out, with the state that it leads to."""
    reached = ((token, oracle.step(state, token)) for token in range(oracle.symbols))
    return [(token, after) for token, after in reached if after is not OUTSIDE]


@dataclass(frozen=True)
class Difference:
    """The shortest input, or one of them, to which two machines give different answers."""

    tokens: tuple[int, ...]
    left: int | None
    right: int | None


@dataclass(frozen=True)
class Agreement:
    """All pairs of states that two machines can be in after the same input, in the order of discovery.

    They are an invariant: the first states are a pair, and every token leads from a pair to a pair
    whose answers are equal. Whoever has the pairs can check that without a search.
    """

    pairs: list[tuple[Any, Any]]


class _Differs(Exception):
    def __init__(
        self, pair: tuple[Any, Any], token: int, answers: tuple[int | None, int | None]
    ) -> None:
        self.pair, self.token, self.answers = pair, token, answers


def compare(left: Oracle, right: Oracle, most: int = MOST_PAIRS) -> Agreement | Difference:
    """Whether two machines answer alike after every input of one or more tokens.

    Inputs that either of the two leaves out are left out.

    Raises:
        Endless: there are more than `most` pairs of states.
    """
    walk: Walk[Any] = Walk((left.start, right.start))

    def following(pairs: Sequence[tuple[Any, Any]]) -> Iterable[Moves[Any]]:
        return [list(from_pair(pair)) for pair in pairs]

    def from_pair(pair: tuple[Any, Any]) -> Moves[Any]:
        for token, there in moves(right, pair[1]):
            here = left.step(pair[0], token)
            if here is OUTSIDE:
                continue
            answers = left.answer(here), right.answer(there)
            if answers[0] != answers[1]:
                raise _Differs(pair, token, answers)
            yield token, (here, there)

    try:
        return Agreement(walk.run(following, most).order)
    except _Differs as found:
        return Difference((*walk.way(found.pair), found.token), *found.answers)
