"""Brackets of two kinds, each of which must be balanced for itself."""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Generator, Tensor

from csprop.automata.counting import CounterMachine
from csprop.tasks.counting import CountingTask
from csprop.tasks.near import near, shuffled
from csprop.tasks.parenthesis import balanced, refuse_odd


class Interleaved(CountingTask):
    """Round and square brackets are balanced, each without the other: `([)]` is right.

    Two counters hold them. If they had to be nested properly, it would take a stack: see `Nested`.

    >>> task = Interleaved()
    >>> def told(text):
    ...     return task.classes[task.truth([task.vocab.index(each) for each in text])]
    >>> [told(text) for text in ("([)]", "()[]", "([)", "(])[")]
    ['yes', 'yes', 'no', 'no']
    """

    name = "interleaved"
    description = "are round and square brackets each balanced?"
    vocab = ("(", ")", "[", "]")
    classes = ("no", "yes")

    def truth(self, sequence: Sequence[int]) -> int:
        for opening, closing in ((0, 1), (2, 3)):
            depths = [0]
            for token in sequence:
                depths.append(depths[-1] + (token == opening) - (token == closing))
            if min(depths) < 0 or depths[-1] != 0:
                return 0
        return 1

    @cached_property
    def counting(self) -> CounterMachine:
        return CounterMachine.explored(
            ((1, 0), (-1, 0), (0, 1), (0, -1)),
            start=True,
            step=lambda fine, token, counts: fine and min(counts) >= 0,
            answer=lambda fine, counts: int(fine and not any(counts)),
        )

    def check_length(self, length: int) -> None:
        super().check_length(length)
        refuse_odd(self.name, length)

    def sample(self, count: int, length: int, generator: Generator) -> Tensor:
        """Half balanced; a quarter with one bracket changed or two exchanged; others uniform."""
        self.check_length(length)
        members = self.balanced(count - count // 4, length, generator)
        members[: count // 4] = near(members[: count // 4], len(self.vocab), generator)
        uniform = torch.randint(len(self.vocab), (count // 4, length), generator=generator)
        return shuffled(members, uniform, generator=generator)

    def balanced(self, count: int, length: int, generator: Generator) -> Tensor:
        """Draw balanced strings: which places are square at random, and the brackets of each kind."""
        square = torch.randint(2, (count, length), generator=generator).bool()
        square[:, -1] ^= square.sum(dim=1) % 2 == 1
        tokens = torch.empty(count, length, dtype=torch.int64)
        for kind, places in enumerate((~square, square)):
            for size in places.sum(dim=1).unique().tolist():
                rows = places.sum(dim=1) == size
                drawn = balanced(int(rows.sum()), size, generator)
                tokens[places & rows[:, None]] = 2 * kind + drawn.flatten()
        return tokens
