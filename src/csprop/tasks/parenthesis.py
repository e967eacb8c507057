"""Parenthesis matching: is a string of brackets balanced?"""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from csprop.automata.counting import CounterMachine
from csprop.data.draws import Draws, Whole
from csprop.errors import InputError
from csprop.tasks.base import Task
from csprop.tasks.counting import CountingTask
from csprop.tasks.near import near, shuffled


class BalancedTask(Task):
    """A task of brackets, which has no balanced string of an odd length."""

    def check_length(self, length: int) -> None:
        super().check_length(length)
        if length % 2:
            raise InputError(
                f"{self.name}: no string of odd length {length} is balanced: write an even length"
            )


class Parenthesis(BalancedTask):
    """The paper's Parenthesis Matching: `(` is token 0, `)` is token 1, half the sample is balanced.

    >>> task = Parenthesis()
    >>> [task.classes[task.truth(s)] for s in ([0, 1, 0, 1], [0, 0, 1, 1], [1, 0], [0, 0])]
    ['yes', 'yes', 'no', 'no']
    """

    name = "parenthesis"
    description = "are the brackets balanced?"
    vocab = ("(", ")")
    classes = ("no", "yes")
    preset = "counter"
    samples = 10000
    depth = 2
    finite = False
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

    def classify(self, tokens: Whole) -> Whole:
        depth = np.where(tokens == 0, 1, -1).cumsum(axis=1)
        never_negative = np.minimum.accumulate(depth, axis=1) >= 0
        return ((depth == 0) & never_negative).astype(np.int64)

    def start(self) -> int:
        return 0

    def step(self, state: int, token: int) -> int:
        """Return the number of open brackets; -1 after a closing bracket without an opening one."""
        if state < 0:
            return -1
        return state + 1 if token == 0 else state - 1

    def answer(self, state: int) -> int:
        return int(state == 0)

    def size(self, state: int) -> int:
        return state

    def draw(self, count: int, length: int, draws: Draws) -> Whole:
        """Draw half balanced strings and half unbalanced ones uniformly, in random order."""
        self.check_length(length)
        right = balanced(count // 2, length, draws)
        others = rejected(self, count - count // 2, length, draws)
        return shuffled(right, others, draws=draws)


class ParenthesisWords(BalancedTask, CountingTask):
    """The same brackets, with a word for what is wrong: some are still open, or too many were closed.

    A bracket that closes nothing cannot be mended by what follows.

    >>> task = ParenthesisWords()
    >>> [task.classes[task.truth(s)] for s in ([0, 1], [0, 0, 1], [0, 1, 1], [1, 0])]
    ['balanced', 'open', 'too many closed', 'too many closed']
    """

    name = "parenthesis-words"
    description = "are the brackets balanced, open, or too many closed?"
    vocab = ("(", ")")
    classes = ("balanced", "open", "too many closed")

    def truth(self, sequence: Sequence[int]) -> int:
        text, before = self.text(sequence), None
        while text != before:
            text, before = text.replace("()", ""), text
        return 2 if ")" in text else int("(" in text)

    @cached_property
    def counting(self) -> CounterMachine:
        return _machine(lambda fine, counts: int(counts[0] > 0) if fine else 2)

    def draw(self, count: int, length: int, draws: Draws) -> Whole:
        """Draw a quarter each: balanced, with one mistake, half of a balanced string, uniform.

        The mistake is one bracket turned, or two exchanged.
        """
        self.check_length(length)
        quarter = count // 4
        right = balanced(count - 3 * quarter, length, draws)
        missed = near(balanced(quarter, length, draws), 2, draws)
        halves = balanced(quarter, 2 * length, draws)[:, :length]
        uniform = draws.below(2, (quarter, length))
        return shuffled(right, missed, halves, uniform, draws=draws)


class ParenthesisPrefix(CountingTask):
    """No prefix closes more brackets than it opens; some may stay open.

    It is the task that the code of the paper's authors calls Dyck-1. They draw an even length from 2 to
    16 for each string and pad it; here all strings have the same length, for a label after every token
    makes a shorter string little else than a prefix of a longer one.

    >>> task = ParenthesisPrefix()
    >>> [task.classes[task.truth(s)] for s in ([0, 1], [0, 0, 1], [0, 1, 1], [1, 0])]
    ['yes', 'yes', 'no', 'no']
    """

    name = "parenthesis-prefix"
    description = "does every closing bracket close an open one?"
    vocab = ("(", ")")
    classes = ("no", "yes")

    def truth(self, sequence: Sequence[int]) -> int:
        prefixes = (list(sequence[:end]) for end in range(1, len(sequence) + 1))
        return int(all(prefix.count(1) <= prefix.count(0) for prefix in prefixes))

    @cached_property
    def counting(self) -> CounterMachine:
        return _machine(lambda fine, counts: int(fine))

    def draw(self, count: int, length: int, draws: Draws) -> Whole:
        """Draw half balanced strings and half strings with a prefix below 0, in random order.

        At an odd length the first half are balanced strings without their last bracket.
        """
        self.check_length(length)
        right = balanced(count // 2, length + length % 2, draws)[:, :length]
        others = rejected(self, count - count // 2, length, draws)
        return shuffled(right, others, draws=draws)


def rejected(task: Task, count: int, length: int, draws: Draws) -> Whole:
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


def _machine(answer: Callable[[bool, tuple[int, ...]], int]) -> CounterMachine:
    """Return a counter of open brackets, whose control remembers whether it was ever below 0."""
    return CounterMachine.explore(
        ((1,), (-1,)),
        start=True,
        step=lambda fine, token, counts: fine and counts[0] >= 0,
        answer=answer,
    )
