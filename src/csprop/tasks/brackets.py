"""Brackets of one kind or of two: balanced, or nested properly up to a depth."""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from csprop.automata.counting import CounterMachine
from csprop.data.draws import Draws, Whole
from csprop.errors import InputError
from csprop.tasks.base import ENDLESS, Task
from csprop.tasks.machine import CountingTask
from csprop.tasks.near import members, near, shuffled

EVEN = range(2, ENDLESS, 2)
"""The lengths of balanced strings."""
DEEPEST = 7
"""There are 2^(depth + 1) states: a stack for each, and one for what is wrong."""
Stack = tuple[int, ...] | None


class Parenthesis(CountingTask):
    """The paper's Parenthesis Matching: `(` is token 0, `)` is token 1, half the sample is balanced.

    >>> [Parenthesis().classify_text(text) for text in ("()()", "(())", ")(", "((")]
    ['yes', 'yes', 'no', 'no']
    """

    name = "parenthesis"
    description = "are the brackets balanced?"
    vocab = ("(", ")")
    lengths = EVEN
    samples = 10000
    depth = 2
    loss, metric = "focal", "f1"
    paper_epochs, paper_gap = "~40, ~150, 100", "12.7 ± 3.4"

    def truth(self, sequence: Sequence[int]) -> int:
        depth = 0
        for token in sequence:
            depth += 1 if token == 0 else -1
            if depth < 0:
                return 0
        return int(depth == 0)

    @cached_property
    def counting(self) -> CounterMachine:
        return _machine(lambda fine, counts: int(fine and counts[0] == 0))

    def _draw(self, count: int, length: int, draws: Draws) -> Whole:
        """Draw half balanced strings and half unbalanced ones uniformly, in random order."""
        right = balanced(count // 2, length, draws)
        return shuffled(right, _rejected(self, count - count // 2, length, draws), draws=draws)


class ParenthesisWords(CountingTask):
    """The same brackets, with a word for what is wrong: some are still open, or too many were closed.

    A bracket that closes nothing cannot be mended by what follows.

    >>> [ParenthesisWords().classify_text(text) for text in ("()", "(()", "())", ")(")]
    ['balanced', 'open', 'too many closed', 'too many closed']
    """

    name = "parenthesis-words"
    description = "are the brackets balanced, open, or too many closed?"
    vocab = ("(", ")")
    classes = ("balanced", "open", "too many closed")
    lengths = EVEN

    def truth(self, sequence: Sequence[int]) -> int:
        rest = _without_pairs(self.text(sequence))
        return 2 if ")" in rest else int("(" in rest)

    @cached_property
    def counting(self) -> CounterMachine:
        return _machine(lambda fine, counts: int(counts[0] > 0) if fine else 2)

    def _draw(self, count: int, length: int, draws: Draws) -> Whole:
        """Draw a quarter each: balanced, with one mistake, half of a balanced string, uniform."""
        quarter = count // 4
        right = balanced(count - 3 * quarter, length, draws)
        missed = near(balanced(quarter, length, draws), 2, draws)
        halves = balanced(quarter, 2 * length, draws)[:, :length]
        uniform = draws.below(2, (quarter, length))
        return shuffled(right, missed, halves, uniform, draws=draws)


class ParenthesisPrefix(CountingTask):
    """No prefix closes more brackets than it opens; some may stay open.

    The code of the paper's authors calls this Dyck-1. They draw an even length from 2 to 16 for each
    string and pad it; here all strings have the same length, because every prefix has a label.

    >>> [ParenthesisPrefix().classify_text(text) for text in ("()", "(()", "())", ")(")]
    ['yes', 'yes', 'no', 'no']
    """

    name = "parenthesis-prefix"
    description = "does every closing bracket close an open one?"
    vocab = ("(", ")")

    def truth(self, sequence: Sequence[int]) -> int:
        return int(")" not in _without_pairs(self.text(sequence)))

    @cached_property
    def counting(self) -> CounterMachine:
        return _machine(lambda fine, counts: int(fine))

    def _draw(self, count: int, length: int, draws: Draws) -> Whole:
        """Draw half balanced strings, without the last bracket at odd lengths, and half others."""
        right = balanced(count // 2, length + length % 2, draws)[:, :length]
        return shuffled(right, _rejected(self, count - count // 2, length, draws), draws=draws)


class Nested(Task):
    """`nested-1` to `nested-7`: are round and square brackets nested properly, at most so deep?

    The open brackets are a stack. A depth bounds it, so the machine is finite; a string that goes
    deeper is wrong. Without a bound no counters are enough, because the order of the open brackets
    matters: that takes a stack, and csprop does not prove it.

    >>> [Nested(3).classify_text(text) for text in ("([])[]", "([)]", "([", "(((())))")]
    ['yes', 'no', 'no', 'no']
    """

    vocab = ("(", ")", "[", "]")
    lengths = EVEN
    preset = "router"

    def __init__(self, deepest: int) -> None:
        if not 1 <= deepest <= DEEPEST:
            raise InputError(f"nested-{deepest} is out of range: write nested-1 to nested-{DEEPEST}")
        self.deepest, self.name = deepest, f"nested-{deepest}"
        self.description = f"are the brackets nested properly, at most {deepest} deep?"
        self.places = max(32, 2 ** (deepest + 2))

    def truth(self, sequence: Sequence[int]) -> int:
        depths = [sum(1 - 2 * (token % 2) for token in sequence[:end]) for end in range(len(sequence))]
        nested = not _without_pairs(self.text(sequence))
        return int(nested and max(depths, default=0) <= self.deepest)

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

    def _draw(self, count: int, length: int, draws: Draws) -> Whole:
        return _mix(members(self.machine, 1, count - count // 4, length, draws), count // 4, draws)


class Interleaved(CountingTask):
    """Round and square brackets are balanced, each without the other: `([)]` is right.

    Two counters hold them. If they had to be nested properly, it would take a stack: see `Nested`.

    >>> [Interleaved().classify_text(text) for text in ("([)]", "()[]", "([)", "(])[")]
    ['yes', 'yes', 'no', 'no']
    """

    name = "interleaved"
    description = "are round and square brackets each balanced?"
    vocab = ("(", ")", "[", "]")
    lengths = EVEN

    def truth(self, sequence: Sequence[int]) -> int:
        text = self.text(sequence)
        kinds = ("".join(each for each in text if each in kind) for kind in ("()", "[]"))
        return int(not any(map(_without_pairs, kinds)))

    @cached_property
    def counting(self) -> CounterMachine:
        return CounterMachine.explore(
            ((1, 0), (-1, 0), (0, 1), (0, -1)),
            start=True,
            step=lambda fine, token, counts: fine and min(counts) >= 0,
            answer=lambda fine, counts: int(fine and not any(counts)),
        )

    def _draw(self, count: int, length: int, draws: Draws) -> Whole:
        return _mix(self.balanced(count - count // 4, length, draws), count // 4, draws)

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


def _mix(right: Whole, quarter: int, draws: Draws) -> Whole:
    """Change brackets in a quarter of all rows, add a quarter of uniform ones, and shuffle."""
    right[:quarter] = near(right[:quarter], 4, draws)
    return shuffled(right, draws.below(4, (quarter, right.shape[1])), draws=draws)


def _rejected(task: Task, count: int, length: int, draws: Draws) -> Whole:
    """Draw strings that a task answers with no, its class 0, uniformly: others are drawn again."""
    rows = np.empty((0, length), np.int64)
    while len(rows) < count:
        drawn = draws.below(2, (count, length))
        rows = np.concatenate([rows, drawn[task.classify(drawn)[:, -1] == 0]])
    return rows[:count]


def balanced(count: int, length: int, draws: Draws) -> Whole:
    """Draw balanced strings uniformly, by the cycle lemma.

    Of the rotations of a string with n + 1 opening and n closing brackets, exactly one has an
    excess of opening ones in every prefix: the one that starts right after the last minimum of the
    running depth. Without its first bracket it is a balanced string of length 2n, and each of
    those is obtained from equally many strings.
    """
    size = length + 1
    order = draws.fractions((count, size)).argsort(axis=1)
    tokens = (order > length // 2).astype(np.int64)  # n + 1 zeros, n ones
    depth = (1 - 2 * tokens).cumsum(axis=1)
    last_lowest = size - 1 - depth[:, ::-1].argmin(axis=1)
    positions = (last_lowest[:, None] + 2 + np.arange(length)) % size
    return np.take_along_axis(tokens, positions, axis=1)


def _without_pairs(text: str) -> str:
    """Remove brackets that close each other until there are none."""
    before = None
    while text != before:
        text, before = text.replace("()", "").replace("[]", ""), text
    return text


def _machine(answer: Callable[[bool, tuple[int, ...]], int]) -> CounterMachine:
    """Return a counter of open brackets, whose control remembers whether it was ever below 0."""
    return CounterMachine.explore(
        ((1,), (-1,)),
        start=True,
        step=lambda fine, token, counts: fine and counts[0] >= 0,
        answer=answer,
    )
