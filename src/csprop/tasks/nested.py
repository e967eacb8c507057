"""Brackets of two kinds: each balanced for itself, or properly nested up to a depth."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from csprop.automata.counting import CounterMachine
from csprop.data.draws import Draws, Whole
from csprop.errors import InputError
from csprop.tasks.counting import CountingTask
from csprop.tasks.near import members, mix
from csprop.tasks.parenthesis import BalancedTask, balanced

DEEPEST = 7
"""There are 2^(depth + 1) states: a stack for each, and one for what is wrong."""
Stack = tuple[int, ...] | None


class Nested(BalancedTask):
    """`nested-1` to `nested-7`: are round and square brackets nested properly, at most so deep?

    The open brackets are a stack. A depth bounds it, so the machine is finite; a string that goes
    deeper is wrong. Without a bound no counters are enough, because the order of the open brackets
    matters: that takes a stack, and csprop does not prove it.

    >>> task = Nested(3)
    >>> def answer(text):
    ...     return task.classes[task.truth([task.vocab.index(each) for each in text])]
    >>> [answer(text) for text in ("([])[]", "([)]", "([", "(((())))")]
    ['yes', 'no', 'no', 'no']
    """

    vocab = ("(", ")", "[", "]")
    classes = ("no", "yes")
    preset = "router"

    def __init__(self, deepest: int) -> None:
        if not 1 <= deepest <= DEEPEST:
            raise InputError(f"nested-{deepest} is out of range: write nested-1 to nested-{DEEPEST}")
        self.deepest, self.name = deepest, f"nested-{deepest}"
        self.description = f"are the brackets nested properly, at most {deepest} deep?"
        self.places = max(32, 2 ** (deepest + 2))

    def truth(self, sequence: Sequence[int]) -> int:
        depths = [sum(1 - 2 * (token % 2) for token in sequence[:end]) for end in range(len(sequence))]
        text, before = self.text(sequence), None
        while text != before:
            text, before = text.replace("()", "").replace("[]", ""), text
        return int(not text and max(depths, default=0) <= self.deepest)

    def start(self) -> Stack:
        return ()

    def step(self, state: Stack, token: int) -> Stack:
        """Return the open brackets, 0 for round and 1 for square; None after a mistake."""
        kind, closes = divmod(token, 2)
        if state is None:
            return None
        if closes:
            return state[:-1] if state[-1:] == (kind,) else None
        return (*state, kind) if len(state) < self.deepest else None

    def answer(self, state: Stack) -> int:
        return int(state == ())

    def draw(self, count: int, length: int, draws: Draws) -> Whole:
        """Draw half nested, a quarter with a bracket changed or two exchanged, others uniformly."""
        self.check_length(length)
        inside = members(self.machine, 1, count - count // 4, length, draws)
        return mix(inside, count // 4, len(self.vocab), draws)


class Interleaved(BalancedTask, CountingTask):
    """Round and square brackets are balanced, each without the other: `([)]` is right.

    Two counters hold them. If they had to be nested properly, it would take a stack: see `Nested`.

    >>> task = Interleaved()
    >>> def answer(text):
    ...     return task.classes[task.truth([task.vocab.index(each) for each in text])]
    >>> [answer(text) for text in ("([)]", "()[]", "([)", "(])[")]
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

    def draw(self, count: int, length: int, draws: Draws) -> Whole:
        """Draw half balanced, a quarter with a bracket changed or two exchanged, others uniformly."""
        self.check_length(length)
        return mix(self.balanced(count - count // 4, length, draws), count // 4, len(self.vocab), draws)

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
