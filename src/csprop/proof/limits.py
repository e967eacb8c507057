"""The limits of locked models, and the reasons for which a model is refused."""

from collections.abc import Sequence
from typing import Any

from csprop.proof.statements import NOT_FINITE, NOT_LEARNED

RATIO = 5.0  # the smallest gap between two codes must be at least this many times the snapping distance
DOUBT = 1e-3
"""Differences of distances or scores below this are not trusted; rounding errors are far smaller."""
BLUR = 1e-5
"""The relative size of random changes to weights and codes under which the machine must stay the
same."""
MOST_LOCKED = 4096  # states of a machine that a locked model can be
MOST_CODES = 512  # codes of a layer


class NotFinite(Exception):
    """The reason why a model could not be locked, with its codes as far as they are known."""

    verdict = NOT_FINITE

    def __init__(self, reason: str, codes: Sequence[Any] | None = None) -> None:
        super().__init__(reason)
        self.codes = codes


class NotLearned(NotFinite):
    """A model is a finite machine, but not better than one that always gives the same answer."""

    verdict = NOT_LEARNED
