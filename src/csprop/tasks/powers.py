"""Numbers of letters: a^n b^n and its relatives, whose blocks depend on each other, and majority."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from csprop.automata.counting import CounterMachine
from csprop.data.draws import Draws, TorchDraws, Whole
from csprop.data.examples import Examples
from csprop.errors import InputError
from csprop.tasks.counting import CountingTask
from csprop.tasks.near import near, shuffled

if TYPE_CHECKING:
    from torch import Generator

Sizes = Callable[[Whole, Draws], Whole]
"""From lengths (N,) to the sizes of the blocks of a string of each length, (N, letters)."""


@dataclass(frozen=True)
class Language:
    """A language in words, as a question about a string, as counters, and as sizes to draw."""

    description: str
    contains: Callable[[str], bool]
    increments: tuple[tuple[int, ...], ...]
    """The number that each letter adds to each counter; all counts are 0 in the end."""
    lengths: range
    """The lengths of its strings; the end means nothing."""
    sizes: Sizes


def _is_power(text: str, *times: int) -> bool:
    n = len(text) // sum(times)
    blocks = (letter * n * many for letter, many in zip("abcd", times, strict=False))
    return n > 0 and text == "".join(blocks)


def _multiples(*times: int) -> Sizes:
    return lambda lengths, _: lengths[:, None] // sum(times) * np.array(times)


def _is_sum(text: str) -> bool:
    blocks = re.fullmatch("(a+)(b+)(c+)", text)
    return blocks is not None and len(blocks[1]) + len(blocks[2]) == len(blocks[3])


def _sum_sizes(lengths: Whole, draws: Draws) -> Whole:
    half = lengths // 2
    lots = draws.fractions((len(lengths),))
    first = 1 + (lots * (half - 1)).astype(np.int64)  # from 1 to half − 1
    return np.stack([first, half - first, half], axis=1)


ENDLESS = 1 << 62
LANGUAGES = {
    "anbn": Language(
        "is it a^n b^n?",
        lambda text: _is_power(text, 1, 1),
        ((1,), (-1,)),
        range(2, ENDLESS, 2),
        _multiples(1, 1),
    ),
    "anb2n": Language(
        "is it a^n b^2n?",
        lambda text: _is_power(text, 1, 2),
        ((2,), (-1,)),
        range(3, ENDLESS, 3),
        _multiples(1, 2),
    ),
    "anbncn": Language(
        "is it a^n b^n c^n?",
        lambda text: _is_power(text, 1, 1, 1),
        ((1, 0), (-1, 1), (0, -1)),
        range(3, ENDLESS, 3),
        _multiples(1, 1, 1),
    ),
    "anbncndn": Language(
        "is it a^n b^n c^n d^n?",
        lambda text: _is_power(text, 1, 1, 1, 1),
        ((1, 0, 0), (-1, 1, 0), (0, -1, 1), (0, 0, -1)),
        range(4, ENDLESS, 4),
        _multiples(1, 1, 1, 1),
    ),
    "anbmcnm": Language(
        "is it a^n b^m c^(n+m)?", _is_sum, ((1,), (1,), (-1,)), range(4, ENDLESS, 2), _sum_sizes
    ),
}


class Powers(CountingTask):
    """`anbn`, `anb2n`, `anbncn`, `anbncndn` and `anbmcnm`: is the string in the language?

    n and m are 1 or more. A length at which the language has no string is refused.

    >>> def answers(name, *texts):
    ...     task = Powers(name)
    ...     return [task.classes[task.truth(["abcd".index(each) for each in text])] for text in texts]
    >>> answers("anbn", "ab", "aabb", "aab", "abab"), answers("anb2n", "abb", "aabbbb", "ab")
    (['yes', 'yes', 'no', 'no'], ['yes', 'yes', 'no'])
    >>> answers("anbncn", "abc", "aabbcc", "aabbc"), answers("anbncndn", "abcd", "abc")
    (['yes', 'yes', 'no'], ['yes', 'no'])
    >>> answers("anbmcnm", "abcc", "aabccc", "aacc", "abcb")
    ['yes', 'yes', 'no', 'no']
    """

    classes = ("no", "yes")

    def __init__(self, name: str) -> None:
        self.name, self.language = name, LANGUAGES[name]
        self.description = self.language.description
        self.vocab = tuple("abcd"[: len(self.language.increments)])
        self.length = next(each for each in range(16, 20) if self.has_length(each))

    def truth(self, sequence: Sequence[int]) -> int:
        return int(self.language.contains(self.text(sequence)))

    @cached_property
    def counting(self) -> CounterMachine:
        """The control knows the last letter, or that a block was left out or came too late."""
        wrong, last = -2, len(self.vocab) - 1
        return CounterMachine.explore(
            self.language.increments,
            start=-1,
            step=lambda state, token, counts: token if token in (state, state + 1) else wrong,
            answer=lambda state, counts: int(state == last and not any(counts)),
        )

    def check_length(self, length: int) -> None:
        super().check_length(length)
        lengths = self.language.lengths
        if length not in lengths:
            longer = next(each for each in range(length + 1, length + 5) if each in lengths)
            raise InputError(
                f"{self.name}: no string of length {length} is in the language: write {longer}"
            )

    def draw(self, count: int, length: int, draws: Draws) -> Whole:
        """Draw three eighths as strings of the language, and half of all rows just miss it.

        A quarter has one letter changed or two letters exchanged. An eighth each has blocks of other
        sizes, is a shorter string of the language that goes on, or is drawn uniformly.
        """
        self.check_length(length)
        letters, eighth = len(self.vocab), count // 8
        whole = np.full(count - 3 * eighth, length)
        members = self._written(self.language.sizes(whole, draws), length)
        members[: 2 * eighth] = near(members[: 2 * eighth], letters, draws)
        others = (
            self._blocks(eighth, length, draws),
            self._continued(eighth, length, draws),
            draws.below(letters, (eighth, length)),
        )
        return shuffled(members, *others, draws=draws)

    def examples(self, count: int, length: int, generator: "Generator") -> Examples:
        """Sequences of all lengths up to `length`: of one length, few are in the language."""
        self.check_length(length)
        lengths = [each for each in range(1, length + 1) if self.has_length(each)]
        draws = TorchDraws(generator)
        drawn = draws.below(len(lengths), (count,))
        tokens = np.zeros((count, length), np.int64)
        for number, size in enumerate(lengths):
            rows = np.flatnonzero(drawn == number)
            tokens[rows, :size] = self.draw(len(rows), size, draws)
        answers = np.arange(1, length + 1) == np.array(lengths)[drawn, None]
        return Examples.from_matrices(tokens, self.classify(tokens), answers)

    def _written(self, sizes: Whole, length: int) -> Whole:
        """Letters from sizes of blocks, (N, length); one letter more stands for what follows them."""
        ends = sizes.cumsum(axis=1)
        return (np.arange(length)[None, :, None] >= ends[:, None, :]).sum(axis=2)

    def _blocks(self, count: int, length: int, draws: Draws) -> Whole:
        """Return all letters in their order, in blocks of any sizes."""
        ends = np.sort(draws.below(length + 1, (count, len(self.vocab) - 1)), axis=1)
        return self._written(np.diff(ends, axis=1, prepend=0), length)

    def _continued(self, count: int, length: int, draws: Draws) -> Whole:
        """Shorter strings and what follows: the last letter, the string again, or any letters."""
        lengths = np.array([each for each in range(1, length + 1) if self.has_length(each)])
        drawn = lengths[draws.below(len(lengths), (count,))]
        tokens = self._written(self.language.sizes(drawn, draws), length)
        tail = draws.below(len(self.vocab), (count, length))
        third = count // 3
        tail[:third] = len(self.vocab) - 1
        again = np.take_along_axis(tokens, np.arange(length) % drawn[:, None], axis=1)
        tail[third : 2 * third] = again[third : 2 * third]
        return np.where(tokens < len(self.vocab), tokens, tail)


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
        """Draw half uniformly, and half as close as possible: half of the tokens are a, or one more."""
        self.check_length(length)
        close = draws.fractions((count // 2, length)).argsort(axis=1)
        few = draws.below(2, (count // 2, 1)) + length // 2
        uniform = draws.below(2, (count - count // 2, length))
        return shuffled((close >= few).astype(np.int64), uniform, draws=draws)
