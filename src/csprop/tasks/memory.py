"""Memory of one bit or of the first token: even pairs, flip-flop, and the flip-flop language."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from csprop.data.draws import Draws, Whole
from csprop.data.examples import Examples
from csprop.errors import InputError
from csprop.tasks.base import Task
from csprop.tasks.circle import RemainderTask

if TYPE_CHECKING:
    from torch import Generator

WRITE, READ, IGNORE, ZERO = range(4)
"""The tokens of the instructions, and of the bit 0."""
PERCENT = 80
"""The percentage of instructions `i`, unless the name gives another."""


class EvenPairs(Task):
    """The number of pairs `01` and `10` is even if and only if the first token equals the last.

    The answer for the empty sequence is yes. The model has to recognise the first token and remember
    it, for which a rotor needs two layers and a router one.

    >>> task = EvenPairs()
    >>> [task.classes[task.truth(s)] for s in ([1, 0, 1], [1, 1, 0], [0], [])]
    ['yes', 'no', 'yes', 'yes']
    """

    name = "even-pairs"
    description = "does the first token equal the last?"
    vocab = ("0", "1")
    classes = ("no", "yes")
    preset = "router"
    depth = 2

    def truth(self, sequence: Sequence[int]) -> int:
        return int(not sequence or sequence[0] == sequence[-1])

    def start(self) -> None:
        return None

    def step(self, state: tuple[int, int] | None, token: int) -> tuple[int, int]:
        """Return the first and the last token so far."""
        return (token if state is None else state[0], token)

    def answer(self, state: tuple[int, int] | None) -> int:
        return int(state is None or state[0] == state[1])


class FlipFlop(RemainderTask):
    """One bit of memory, initially 0: `0` and `1` write it, and `.` leaves it unchanged.

    >>> task = FlipFlop()
    >>> [task.classes[task.truth(s)] for s in ([0, 1, 2, 2], [1, 0], [2, 2])]
    ['1', '0', '0']
    """

    name = "flip-flop"
    description = "the bit last written; 0 before any"
    vocab = ("0", "1", ".")
    classes = ("0", "1")

    def truth(self, sequence: Sequence[int]) -> int:
        written = [token for token in sequence if token != 2]
        return written[-1] if written else 0

    def step(self, state: int, token: int) -> int:
        return state if token == 2 else token


class FlipFlopLanguage(Task):
    """Which bit comes after the last `r`? Pairs of an instruction and a bit lead there.

    Liu et al. ("Exposing Attention Glitches with Flip-Flop Language Modeling", 2023): the bit after `w`
    is written, the bit after `r` is the one last written, and the bit after `i` is any bit. In
    `flip-flop-language` 80% of the instructions are `i`, as in their training, and in
    `flip-flop-language-P` P% are, such as 98 and 10 in their tests; of the others half are `w` and half
    `r`. A drawn sequence begins with `w` and ends with `r`, so its length is odd.

    A proof is about all sequences, and after each the class is the bit last written: the last one that
    stands right after a `w`, and 0 before any. So half of the rows to learn from are of any tokens.

    >>> task = FlipFlopLanguage()
    >>> def bit(text): return task.classes[task.truth([task.vocab.index(each) for each in text])]
    >>> [bit(text) for text in ("w1i0r", "w1i0r1w0r", "r", "w1w", "ww10")]
    ['1', '0', '0', '1', '1']
    """

    name = "flip-flop-language"
    description = "the bit last written, which is read next"
    vocab = ("w", "r", "i", "0", "1")
    classes = ("0", "1")
    preset = "router"
    length = 17

    def __init__(self, percent: int | None = None) -> None:
        if percent is not None:
            if percent > 99:
                raise InputError(
                    f"{self.name}-{percent} is out of range: write {self.name}-0 to {self.name}-99"
                )
            self.name = f"{self.name}-{percent}"
        self.ignored = (PERCENT if percent is None else percent) / 100

    def truth(self, sequence: Sequence[int]) -> int:
        written = re.findall("w([01])", self.text(sequence))
        return int(written[-1]) if written else 0

    def start(self) -> tuple[int, bool]:
        return 0, False

    def step(self, state: tuple[int, bool], token: int) -> tuple[int, bool]:
        """Return the bit last written, and whether the next token is written if it is a bit."""
        bit, writing = state
        return token - ZERO if writing and token >= ZERO else bit, token == WRITE

    def answer(self, state: tuple[int, bool]) -> int:
        return state[0]

    def check_length(self, length: int) -> None:
        super().check_length(length)
        if length % 2 == 0:
            raise InputError(
                f"{self.name}: a sequence is pairs and a last r, and none has even length {length}: "
                f"write {length + 1}"
            )

    def draw(self, count: int, length: int, draws: Draws) -> Whole:
        self.check_length(length)
        shape = (count, length // 2)
        kinds = draws.fractions(shape)
        written = np.where(kinds < (1 + self.ignored) / 2, WRITE, READ)
        instructions = np.where(kinds < self.ignored, IGNORE, written)
        instructions[:, :1] = WRITE
        bits = draws.below(2, shape)
        writes = np.where(instructions == WRITE, np.arange(length // 2), 0)
        last = np.take_along_axis(bits, np.maximum.accumulate(writes, axis=1), axis=1)
        tokens = np.full((count, length), READ)
        tokens[:, :-1:2] = instructions
        tokens[:, 1::2] = ZERO + np.where(instructions == READ, last, bits)
        return tokens

    def examples(self, count: int, length: int, generator: "Generator") -> Examples:
        """Draw half of the rows from the language, and the others from any tokens."""
        import torch

        drawn = self.sample(count - count // 2, length, generator)
        others = torch.randint(len(self.vocab), (count // 2, length), generator=generator)
        return self.labelled(torch.cat([drawn, others]))
