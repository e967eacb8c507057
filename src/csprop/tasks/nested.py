"""Brackets of two kinds, properly nested up to a depth."""

from collections.abc import Sequence

from csprop.data.draws import Draws, Whole
from csprop.errors import InputError
from csprop.tasks.base import Task
from csprop.tasks.near import members, near, shuffled
from csprop.tasks.parenthesis import refuse_odd

DEEPEST = 7
"""There are 2^(depth + 1) states: a stack for each, and one for what is wrong."""
Stack = tuple[int, ...] | None


class Nested(Task):
    """`nested-1` to `nested-7`: are round and square brackets nested properly, at most so deep?

    What is open is a stack of round and square brackets. A depth bounds it, so that the machine is
    finite; a string that goes deeper is wrong. Without a bound no counters are enough, because the
    order of what is open matters: that takes a stack, and csprop does not prove it.

    >>> task = Nested(3)
    >>> def told(text):
    ...     return task.classes[task.truth([task.vocab.index(each) for each in text])]
    >>> [told(text) for text in ("([])[]", "([)]", "([", "(((())))")]
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
        opened = [sum(1 - 2 * (token % 2) for token in sequence[:end]) for end in range(len(sequence))]
        text, before = "".join(self.vocab[token] for token in sequence), None
        while text != before:
            text, before = text.replace("()", "").replace("[]", ""), text
        return int(not text and max(opened, default=0) <= self.deepest)

    def start(self) -> Stack:
        return ()

    def step(self, state: Stack, token: int) -> Stack:
        """The brackets that are open, 0 for a round and 1 for a square one; None after a mistake."""
        kind, closes = divmod(token, 2)
        if state is None:
            return None
        if closes:
            return state[:-1] if state[-1:] == (kind,) else None
        return (*state, kind) if len(state) < self.deepest else None

    def answer(self, state: Stack) -> int:
        return int(state == ())

    def check_length(self, length: int) -> None:
        super().check_length(length)
        refuse_odd(self.name, length)

    def draw(self, count: int, length: int, draws: Draws) -> Whole:
        """Half properly nested; a quarter with one bracket changed or two exchanged; others uniform."""
        self.check_length(length)
        inside = members(self.machine, 1, count - count // 4, length, draws)
        inside[: count // 4] = near(inside[: count // 4], len(self.vocab), draws)
        uniform = draws.below(len(self.vocab), (count // 4, length))
        return shuffled(inside, uniform, draws=draws)
