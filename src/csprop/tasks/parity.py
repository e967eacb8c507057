"""Parity: is the number of ones odd?"""

from collections.abc import Sequence

import numpy as np

from csprop.tasks.base import Task
from csprop.tasks.draws import Whole


class Parity(Task):
    """The paper's Parity Check.

    >>> Parity().classes[Parity().truth([1, 0, 1, 1])]
    'odd'
    """

    name = "parity"
    description = "is the number of 1s odd?"
    vocab = ("0", "1")
    classes = ("even", "odd")
    paper_epochs, paper_gap = "~70, ~50, 30", "3.2 ± 1.2"

    def truth(self, sequence: Sequence[int]) -> int:
        return sum(sequence) % 2

    def classify(self, tokens: Whole) -> Whole:
        return tokens.cumsum(axis=1, dtype=np.int64) % 2

    def start(self) -> int:
        return 0

    def step(self, state: int, token: int) -> int:
        return (state + token) % 2

    def answer(self, state: int) -> int:
        return state
