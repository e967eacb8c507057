"""Numbers of letters: a^n b^n and its relatives, whose blocks depend on each other, and majority."""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from csprop.automata.counting import CounterMachine
from csprop.data.draws import Draws, TorchDraws, Whole
from csprop.data.examples import Examples
from csprop.tasks.base import ENDLESS
from csprop.tasks.machine import CountingTask
from csprop.tasks.near import draw_examples, draw_lengths, near, shuffled

if TYPE_CHECKING:
    from torch import Generator

POWERS = {
    "anbn": ("a^n b^n", (1, 1), ((1,), (-1,))),
    "anb2n": ("a^n b^2n", (1, 2), ((2,), (-1,))),
    "anbncn": ("a^n b^n c^n", (1, 1, 1), ((1, 0), (-1, 1), (0, -1))),
    "anbncndn": ("a^n b^n c^n d^n", (1, 1, 1, 1), ((1, 0, 0), (-1, 1, 0), (0, -1, 1), (0, 0, -1))),
    "anbmcnm": ("a^n b^m c^(n+m)", (1, 1, 2), ((1,), (1,), (-1,))),
}
"""The blocks, their sizes in the shortest string, and the number that each letter adds to each counter.
All counts are 0 in the end."""


class Powers(CountingTask):
    """`anbn`, `anb2n`, `anbncn` and `anbncndn`: is the string in the language? n is 1 or more.

    >>> def answers(name, *texts): return [Powers(name).classify_text(text) for text in texts]
    >>> answers("anbn", "ab", "aabb", "aab", "abab"), answers("anb2n", "abb", "aabbbb", "ab")
    (['yes', 'yes', 'no', 'no'], ['yes', 'yes', 'no'])
    >>> answers("anbncn", "abc", "aabbcc", "aabbc"), answers("anbncndn", "abcd", "abc")
    (['yes', 'yes', 'no'], ['yes', 'no'])
    """

    def __init__(self, name: str) -> None:
        blocks, self.shortest, self.increments = POWERS[name]
        self.name, self.description = name, f"is it {blocks}?"
        self.vocab = tuple("abcd"[: len(self.shortest)])
        self.lengths = range(sum(self.shortest), ENDLESS, sum(self.shortest))
        self.length = self.length_from(16)

    def truth(self, sequence: Sequence[int]) -> int:
        blocks = re.fullmatch("".join(f"({letter}+)" for letter in self.vocab), self.text(sequence))
        return int(blocks is not None and self.fits(*map(len, blocks.groups())))

    def fits(self, *sizes: int) -> bool:
        """Return True for the sizes of the blocks of a string of the language."""
        return sizes == tuple(sizes[0] * each for each in self.shortest)

    def draw_sizes(self, lengths: Whole, draws: Draws) -> Whole:
        """Return the sizes of the blocks of a string of each length, (N, letters)."""
        return lengths[:, None] // sum(self.shortest) * np.array(self.shortest)

    @cached_property
    def counting(self) -> CounterMachine:
        """The control knows the last letter, or that a block was left out or came too late."""
        wrong, last = -2, len(self.vocab) - 1
        return CounterMachine.explore(
            self.increments,
            start=-1,
            step=lambda state, token, counts: token if token in (state, state + 1) else wrong,
            answer=lambda state, counts: int(state == last and not any(counts)),
        )

    def _draw(self, count: int, length: int, draws: Draws) -> Whole:
        """Draw three eighths as strings of the language, and half of all rows just miss it.

        A quarter has one letter changed or two letters exchanged. An eighth each has blocks of other
        sizes, is a shorter string of the language that goes on, or is drawn uniformly.
        """
        letters, eighth = len(self.vocab), count // 8
        whole = np.full(count - 3 * eighth, length)
        members = self._write(self.draw_sizes(whole, draws), length)
        members[: 2 * eighth] = near(members[: 2 * eighth], letters, draws)
        others = (
            self._blocks(eighth, length, draws),
            self._continued(eighth, length, draws),
            draws.below(letters, (eighth, length)),
        )
        return shuffled(members, *others, draws=draws)

    def examples(self, count: int, length: int, generator: "Generator") -> Examples:
        """Sequences of all lengths up to `length`: of one length, few are in the language."""
        draws = TorchDraws(generator)
        return draw_examples(self, draw_lengths(self, count, length, draws), draws)

    def _write(self, sizes: Whole, length: int) -> Whole:
        """Letters from sizes of blocks, (N, length); one letter more stands for what follows them."""
        ends = sizes.cumsum(axis=1)
        return (np.arange(length)[None, :, None] >= ends[:, None, :]).sum(axis=2)

    def _blocks(self, count: int, length: int, draws: Draws) -> Whole:
        """Return all letters in their order, in blocks of any sizes."""
        ends = np.sort(draws.below(length + 1, (count, len(self.vocab) - 1)), axis=1)
        return self._write(np.diff(ends, axis=1, prepend=0), length)

    def _continued(self, count: int, length: int, draws: Draws) -> Whole:
        """Shorter strings and what follows: the last letter, the string again, or any letters."""
        drawn = draw_lengths(self, count, length, draws)
        tokens = self._write(self.draw_sizes(drawn, draws), length)
        tail = draws.below(len(self.vocab), (count, length))
        third = count // 3
        tail[:third] = len(self.vocab) - 1
        again = np.take_along_axis(tokens, np.arange(length) % drawn[:, None], axis=1)
        tail[third : 2 * third] = again[third : 2 * third]
        return np.where(tokens < len(self.vocab), tokens, tail)


class PowersSum(Powers):
    """`anbmcnm`: is the string in the language? n and m are 1 or more.

    >>> [PowersSum().classify_text(text) for text in ("abcc", "aabccc", "aacc", "abcb")]
    ['yes', 'yes', 'no', 'no']
    """

    name = "anbmcnm"

    def __init__(self) -> None:
        super().__init__(self.name)
        self.lengths = range(4, ENDLESS, 2)

    def fits(self, *sizes: int) -> bool:
        return sizes[0] + sizes[1] == sizes[2]

    def draw_sizes(self, lengths: Whole, draws: Draws) -> Whole:
        half = lengths // 2
        lots = draws.fractions((len(lengths),))
        first = 1 + (lots * (half - 1)).astype(np.int64)  # from 1 to half − 1
        return np.stack([first, half - first, half], axis=1)


class Majority(CountingTask):
    """More `a` than `b`; a tie is `no`.

    >>> [Majority().classify_text(text) for text in ("aba", "ab", "bba")]
    ['yes', 'no', 'no']
    """

    name = "majority"
    description = "are there more a than b?"
    vocab = ("a", "b")

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

    def _draw(self, count: int, length: int, draws: Draws) -> Whole:
        """Draw half uniformly, and half as close as possible: half of the tokens are a, or one more."""
        close = draws.fractions((count // 2, length)).argsort(axis=1)
        few = draws.below(2, (count // 2, 1)) + length // 2
        uniform = draws.below(2, (count - count // 2, length))
        return shuffled((close >= few).astype(np.int64), uniform, draws=draws)
