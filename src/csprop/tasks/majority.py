"""Majority: are there more a than b?"""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Generator, Tensor

from csprop.automata.counting import CounterMachine
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
        return CounterMachine.explored(
            ((1,), (-1,)),
            start=0,
            step=lambda state, token, counts: state,
            answer=lambda state, counts: int(counts[0] > 0),
        )

    def sample(self, count: int, length: int, generator: Generator) -> Tensor:
        """Half drawn uniformly, and half as close as can be: half of the tokens are a, or one more."""
        self.check_length(length)
        close = torch.rand(count // 2, length, generator=generator, dtype=torch.float64).argsort(dim=1)
        few = torch.randint(2, (count // 2, 1), generator=generator) + length // 2
        uniform = torch.randint(2, (count - count // 2, length), generator=generator)
        return shuffled((close >= few).long(), uniform, generator=generator)
