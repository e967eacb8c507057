"""What a locked model must keep away from, so that rounding decides nothing; and why it was refused."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from csprop.automata.machine import Machine
from csprop.automata.walk import Oracle, Walk, moves

RATIO = 5.0
"""The smallest gap between two codes must be at least this many times the snapping distance."""
DOUBT = 1e-3
"""Differences of distances or scores below this are not trusted; rounding errors are far smaller."""
BLUR = 1e-5
"""The relative size of random changes to weights and codes under which the machine must stay the
same."""

MOST_LOCKED = 4096
"""States of a machine that a locked model can be."""
MOST_CODES = 512
"""Codes of a layer."""

MachineMoves = Sequence[tuple[int, int]]
"""Transitions, as pairs of a state of the machine and a token."""


class NotFinite(Exception):
    """Why a model could not be locked; with the codes that were found, if any."""

    def __init__(self, reason: str, codes: Sequence[Any] | None = None) -> None:
        super().__init__(reason)
        self.codes = codes


class NotLearned(NotFinite):
    """That a model is a finite machine, and no better than one that always gives the same answer."""


@dataclass(frozen=True)
class Tightness:
    """The distances between the codes of a layer, and between its states and their codes."""

    codes: int
    """The number of codes."""
    gap: float | None
    """The smallest distance between two codes; None if there is only one."""
    snap: float
    """The largest distance from a state to its code."""
    size: float
    """The largest absolute value in a code."""
    gate: float | None
    """The smallest |δ| of a gate that is rounded to 0 or 1, or of a router the smallest lead of the
    chosen map or target over the next one; None if nothing is rounded."""


def accept(measured: Sequence[Tightness]) -> None:
    """Check that no state could be confused with another.

    Raises:
        NotFinite: codes are too close, or a gate is too close to the point where it changes.
    """
    for layer, each in enumerate(measured, start=1):
        if not math.isfinite(each.snap):
            raise NotFinite(f"layer {layer}: a state is not finite")
        if each.gate is not None and not each.gate >= DOUBT:
            raise NotFinite(
                f"layer {layer}: rounding could switch a gate or a route (by {each.gate:.1g})"
            )
        if each.gap is not None and not each.gap >= RATIO * max(each.snap, DOUBT * max(1, each.size)):
            raise NotFinite(
                f"layer {layer}: the {each.codes} codes are as close as {each.gap:.3g}, and states are "
                f"up to {each.snap:.3g} from them; the gap must be {RATIO:.0f} times that distance"
            )


class Tabulated(Protocol):
    """A locked model, in torch or in NumPy."""

    @property
    def machine(self) -> Machine: ...


def moves_of(locked: Tabulated, domain: Oracle) -> list[tuple[int, int]]:
    """All transitions of a locked model that inputs of a domain take."""
    transitions, found = locked.machine.transitions, dict[tuple[int, int], None]()

    def following(nodes: Sequence[tuple[int, Any]]) -> list[list[tuple[int, tuple[int, Any]]]]:
        return [[leave(state, *move) for move in moves(domain, where)] for state, where in nodes]

    def leave(state: int, token: int, where: Any) -> tuple[int, tuple[int, Any]]:
        found[state, token] = None
        return token, (transitions[state][token], where)

    Walk((locked.machine.start, domain.start)).run(following, None)
    return list(found)
