"""Majority: are there more a than b?"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from csprop.automata.counting import CounterMachine
from csprop.data.draws import Draws, Whole
from csprop.tasks.counting import CountingTask
from csprop.tasks.near import shuffled


class Majority(CountingTask):
    """More `a` than `b`; a tie is `no`.

    >>> task = Majority()
    >>> [task.classes[task.truth(s)] for s in ([0, 1, 0], [0, 1], [1, 1, 0])]
    ['yes', 'no', 'no']
    """

    name = "majority"
    description = "are there more a than b?"
    vocab = ("a", "b")
    classes = ("no", "yes")

    def truth(self, sequence: Sequence[int]) -> int:
        return int(2 * list(sequence).count(0) > len(sequence))

    @cached_property
    def counting(self) -> CounterMachine:
        return CounterMachine.explore(
            ((1,), (-1,)),
            start=0,
            step=lambda state, token, counts: state,
            answer=lambda state, counts: int(counts[0] > 0),
        )

    def draw(self, count: int, length: int, draws: Draws) -> Whole:
        """Half drawn uniformly, and half as close as can be: half of the tokens are a, or one more."""
        self.check_length(length)
        close = draws.fractions((count // 2, length)).argsort(axis=1)
        few = draws.below(2, (count // 2, 1)) + length // 2
        uniform = draws.below(2, (count - count // 2, length))
        return shuffled((close >= few).astype(np.int64), uniform, draws=draws)
