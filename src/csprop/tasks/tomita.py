"""Tomita's grammars: seven small regular languages of 0s and 1s."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from csprop.data.draws import Draws, Whole
from csprop.errors import InputError
from csprop.tasks.base import Task
from csprop.tasks.near import members


@dataclass(frozen=True)
class Grammar:
    """A language in words, as a question about a string, and as a table."""

    description: str
    contains: Callable[[str], bool]
    rows: tuple[tuple[int, int], ...]  # the states after a 0 and after a 1; the start is state 0
    inside: tuple[int, ...]  # the states in which the string is in the language


GRAMMARS = (
    Grammar("are there only 1s?", lambda text: "0" not in text, ((1, 0), (1, 1)), (0,)),
    Grammar(
        "is it 10, any number of times?",
        lambda text: text == "10" * (len(text) // 2),
        ((2, 1), (0, 2), (2, 2)),
        (0,),
    ),
    Grammar(
        "is each odd run of 1s followed by an even run of 0s?",
        # No match: an odd number of 1s and then an odd number of 0s, whole runs both.
        lambda text: not re.search(r"(?<!1)1(11)*0(00)*(?!0)", text),
        ((0, 1), (2, 0), (3, 4), (2, 1), (4, 4)),
        (0, 1, 3),
    ),
    Grammar(
        "are there never three 0s in a row?",
        lambda text: "000" not in text,
        ((1, 0), (2, 0), (3, 0), (3, 3)),
        (0, 1, 2),
    ),
    Grammar(
        "is the number of 0s even, and that of 1s?",
        lambda text: text.count("0") % 2 == text.count("1") % 2 == 0,
        ((1, 2), (0, 3), (3, 0), (2, 1)),
        (0,),
    ),
    Grammar(
        "is the number of 0s minus that of 1s divisible by 3?",
        lambda text: (text.count("0") - text.count("1")) % 3 == 0,
        ((1, 2), (2, 0), (0, 1)),
        (0,),
    ),
    Grammar(
        "is it 0s, then 1s, then 0s, then 1s?",
        lambda text: re.fullmatch("0*1*0*1*", text) is not None,
        ((0, 1), (2, 1), (2, 3), (4, 3), (4, 4)),
        (0, 1, 2, 3),
    ),
)


class Tomita(Task):
    """`tomita-1` to `tomita-7`: is the string in the language?

    From M. Tomita, "Dynamic construction of finite-state automata from examples using hill-climbing",
    1982, the usual test of grammatical inference:

    1. only 1s;
    2. 10 any number of times;
    3. no odd number of 1s in a row that is followed by an odd number of 0s in a row;
    4. never three 0s in a row;
    5. an even number of 0s and an even number of 1s;
    6. the number of 0s minus the number of 1s is divisible by 3;
    7. 0s, then 1s, then 0s, then 1s, where any of the four may be missing.

    >>> def says(number, text):
    ...     task = Tomita(number)
    ...     return task.classes[task.truth([int(each) for each in text])]
    >>> [says(1, "111"), says(2, "1010"), says(3, "1100"), says(3, "110100"), says(4, "0010100")]
    ['yes', 'yes', 'yes', 'yes', 'yes']
    >>> [says(1, "110"), says(2, "101"), says(3, "1001110"), says(4, "10001")]
    ['no', 'no', 'no', 'no']
    >>> [says(5, "0110"), says(5, "01")]
    ['yes', 'no']
    >>> [says(6, "0101"), says(6, "000"), says(6, "011"), says(7, "0011011"), says(7, "10101")]
    ['yes', 'yes', 'no', 'yes', 'no']
    """

    vocab = ("0", "1")
    classes = ("no", "yes")
    preset = "router"

    def __init__(self, number: int) -> None:
        if not 1 <= number <= len(GRAMMARS):
            raise InputError(f"there is no task tomita-{number}: write tomita-1 to tomita-7")
        self.grammar = GRAMMARS[number - 1]
        self.name = f"tomita-{number}"
        self.description = self.grammar.description

    def truth(self, sequence: Sequence[int]) -> int:
        return int(self.grammar.contains(self.text(sequence)))

    def start(self) -> int:
        return 0

    def step(self, state: int, token: int) -> int:
        return self.grammar.rows[state][token]

    def answer(self, state: int) -> int:
        return int(state in self.grammar.inside)

    def draw(self, count: int, length: int, draws: Draws) -> Whole:
        """Draw half the rows from the strings of the language, if it has any of this length.

        Of all strings of length 16, the languages 1, 2 and 7 have one in a hundred or less.
        """
        anything = super().draw(count, length, draws)
        inside = members(self.machine, 1, count // 2, length, draws)
        return np.concatenate([inside, anything[len(inside) :]])
