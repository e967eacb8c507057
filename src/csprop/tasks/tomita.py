"""Tomita's grammars: seven small regular languages of 0s and 1s."""

import re
from collections.abc import Callable, Sequence

import numpy as np

from csprop.data.draws import Draws, Whole
from csprop.errors import InputError
from csprop.tasks.base import Task
from csprop.tasks.near import members

Grammar = tuple[str, Callable[[str], bool], tuple[tuple[int, int], ...], tuple[int, ...]]
"""A language in words; as a question about a string; as the states after a 0 and after a 1, from state
0 on; and the states in which the string is in the language."""
GRAMMARS: tuple[Grammar, ...] = (
    ("are there only 1s?", lambda text: "0" not in text, ((1, 0), (1, 1)), (0,)),
    (
        "is it 10, any number of times?",
        lambda text: text == "10" * (len(text) // 2),
        ((2, 1), (0, 2), (2, 2)),
        (0,),
    ),
    (
        "is each odd run of 1s followed by an even run of 0s?",
        # No match: an odd number of 1s and then an odd number of 0s, whole runs both.
        lambda text: not re.search(r"(?<!1)1(11)*0(00)*(?!0)", text),
        ((0, 1), (2, 0), (3, 4), (2, 1), (4, 4)),
        (0, 1, 3),
    ),
    (
        "are there never three 0s in a row?",
        lambda text: "000" not in text,
        ((1, 0), (2, 0), (3, 0), (3, 3)),
        (0, 1, 2),
    ),
    (
        "is the number of 0s even, and that of 1s?",
        lambda text: text.count("0") % 2 == text.count("1") % 2 == 0,
        ((1, 2), (0, 3), (3, 0), (2, 1)),
        (0,),
    ),
    (
        "is the number of 0s minus that of 1s divisible by 3?",
        lambda text: (text.count("0") - text.count("1")) % 3 == 0,
        ((1, 2), (2, 0), (0, 1)),
        (0,),
    ),
    (
        "is it 0s, then 1s, then 0s, then 1s?",
        lambda text: re.fullmatch("0*1*0*1*", text) is not None,
        ((0, 1), (2, 1), (2, 3), (4, 3), (4, 4)),
        (0, 1, 2, 3),
    ),
)


class Tomita(Task):
    """`tomita-1` to `tomita-7`: is the string in the language?

    From M. Tomita, "Dynamic construction of finite-state automata from examples using hill-climbing",
    1982, the usual test of grammatical inference.

    >>> inside = ("111", "1010", "110100", "0010100", "0110", "0101", "0011011")
    >>> [Tomita(number).classify_text(text) for number, text in enumerate(inside, start=1)]
    ['yes', 'yes', 'yes', 'yes', 'yes', 'yes', 'yes']
    >>> outside = ("110", "101", "1001110", "10001", "01", "011", "10101")
    >>> [Tomita(number).classify_text(text) for number, text in enumerate(outside, start=1)]
    ['no', 'no', 'no', 'no', 'no', 'no', 'no']
    """

    vocab = ("0", "1")
    preset = "router"

    def __init__(self, number: int) -> None:
        if not 1 <= number <= len(GRAMMARS):
            raise InputError(f"there is no task tomita-{number}: write tomita-1 to tomita-7")
        self.name = f"tomita-{number}"
        self.description, self.contains, self.rows, self.inside = GRAMMARS[number - 1]

    def truth(self, sequence: Sequence[int]) -> int:
        return int(self.contains(self.text(sequence)))

    def step(self, state: int, token: int) -> int:
        return self.rows[state][token]

    def answer(self, state: int) -> int:
        return int(state in self.inside)

    def _draw(self, count: int, length: int, draws: Draws) -> Whole:
        """Draw half the rows from the strings of the language, if it has any of this length."""
        anything = super()._draw(count, length, draws)
        inside = members(self.machine, 1, count // 2, length, draws)
        return np.concatenate([inside, anything[len(inside) :]])
