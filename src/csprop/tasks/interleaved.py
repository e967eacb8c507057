"""Brackets of two kinds, each of which must be balanced for itself."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from csprop.automata.counting import CounterMachine
from csprop.data.draws import Draws, Whole
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
        return CounterMachine.explore(
            ((1, 0), (-1, 0), (0, 1), (0, -1)),
            start=True,
            step=lambda fine, token, counts: fine and min(counts) >= 0,
            answer=lambda fine, counts: int(fine and not any(counts)),
        )

    def check_length(self, length: int) -> None:
        super().check_length(length)
        refuse_odd(self.name, length)

    def draw(self, count: int, length: int, draws: Draws) -> Whole:
        """Half balanced; a quarter with one bracket changed or two exchanged; others uniform."""
        self.check_length(length)
        members = self.balanced(count - count // 4, length, draws)
        members[: count // 4] = near(members[: count // 4], len(self.vocab), draws)
        uniform = draws.below(len(self.vocab), (count // 4, length))
        return shuffled(members, uniform, draws=draws)

    def balanced(self, count: int, length: int, draws: Draws) -> Whole:
        """Draw balanced strings: which places are square at random, and the brackets of each kind."""
        square = draws.below(2, (count, length)) > 0
        square[:, -1] ^= square.sum(axis=1) % 2 == 1
        tokens = np.empty((count, length), np.int64)
        for kind, places in enumerate((~square, square)):
            for size in np.unique(places.sum(axis=1)).tolist():
                rows = places.sum(axis=1) == size
                drawn = balanced(int(rows.sum()), size, draws)
                tokens[places & rows[:, None]] = 2 * kind + drawn.ravel()
        return tokens
