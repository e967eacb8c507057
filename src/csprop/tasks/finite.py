"""Small finite machines: counting in a circle, and memory of one bit or of the first token."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from csprop.data.draws import Draws, Whole
from csprop.data.examples import Examples
from csprop.errors import InputError
from csprop.tasks.base import ENDLESS, Task

if TYPE_CHECKING:
    from torch import Generator

WRITE, READ, IGNORE, ZERO = range(4)
"""The tokens of the instructions, and of the bit 0."""


class Parity(Task):
    """The paper's Parity Check.

    >>> Parity().classify_text("1011")
    'odd'
    """

    name = "parity"
    description = "is the number of 1s odd?"
    vocab = ("0", "1")
    classes = ("even", "odd")
    preset = "rotor"
    paper_epochs, paper_gap = "~70, ~50, 30", "3.2 ± 1.2"

    def truth(self, sequence: Sequence[int]) -> int:
        return sum(sequence) % 2

    def step(self, state: int, token: int) -> int:
        return (state + token) % 2


class CycleNav(Task):
    """Five positions on a ring, starting at 0: `-` is a step back, `.` stays, `+` is a step forward.

    >>> [CycleNav().classify_text(text) for text in ("+.+", "-", "++++++")]
    ['2', '4', '1']
    """

    name = "cycle-nav"
    description = "the position on a ring of 5, starting at 0"
    vocab = ("-", ".", "+")
    classes = ("0", "1", "2", "3", "4")
    preset = "rotor"

    def truth(self, sequence: Sequence[int]) -> int:
        tokens = list(sequence)
        return (tokens.count(2) - tokens.count(0)) % 5

    def step(self, state: int, token: int) -> int:
        return (state + token - 1) % 5


class ModularResidue(Task):
    """`modK-residue`: the number of ones modulo K.

    >>> ModularResidue(5).classify_text("1011")
    '3'
    """

    suffix, question = "-residue", "the number of 1s modulo {}"
    vocab = ("0", "1")
    preset = "rotor"

    def __init__(self, modulus: int) -> None:
        self.modulus, self.name = modulus, f"mod{modulus}{self.suffix}"
        if not 2 <= modulus <= 10_000:
            raise InputError(
                f"{self.name} is out of range: write mod2{self.suffix} to mod10000{self.suffix}"
            )
        self.description = self.question.format(modulus)
        self.classes = tuple(map(str, range(modulus)))

    def truth(self, sequence: Sequence[int]) -> int:
        return sum(sequence) % self.modulus

    def step(self, state: int, token: int) -> int:
        return (state + token) % self.modulus


class Modular(ModularResidue):
    """`modK`: is the number of ones divisible by K?

    The paper describes its Mod-3 Counting as this, and reports the chance level of `mod3-residue`, 33%.

    >>> Modular(3).classify_text("1011")
    'yes'
    """

    suffix, question = "", "is the number of 1s divisible by {}?"

    def __init__(self, modulus: int) -> None:
        super().__init__(modulus)
        self.classes = ("no", "yes")
        if modulus == 3:
            self.paper_epochs, self.paper_gap = "~50, –, 80", "8.4 ± 2.1"

    def truth(self, sequence: Sequence[int]) -> int:
        return int(sum(sequence) % self.modulus == 0)

    def answer(self, state: int) -> int:
        return int(state == 0)


class ModularReset(ModularResidue):
    """`modK-reset`: the number of ones since the last `r`, or since the beginning, modulo K.

    >>> [ModularReset(3).classify_text(text) for text in ("11", "11r", "1r101", "1111")]
    ['2', '0', '2', '1']
    """

    suffix, question = "-reset", "1s since the last r, modulo {}"
    vocab = ("0", "1", "r")

    def truth(self, sequence: Sequence[int]) -> int:
        return self.text(sequence).rpartition("r")[2].count("1") % self.modulus

    def step(self, state: int, token: int) -> int:
        return 0 if token == 2 else (state + token) % self.modulus


class EvenPairs(Task):
    """The number of pairs `01` and `10` is even if and only if the first token equals the last.

    The answer for the empty sequence is yes. The model has to recognise the first token and remember
    it, for which a rotor needs two layers and a router one.

    >>> [EvenPairs().classify_text(text) for text in ("101", "110", "0", "")]
    ['yes', 'no', 'yes', 'yes']
    """

    name = "even-pairs"
    description = "does the first token equal the last?"
    vocab = ("0", "1")
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


class FlipFlop(Task):
    """One bit of memory, initially 0: `0` and `1` write it, and `.` leaves it unchanged.

    >>> [FlipFlop().classify_text(text) for text in ("01..", "10", "..")]
    ['1', '0', '0']
    """

    name = "flip-flop"
    description = "the bit last written; 0 before any"
    vocab = ("0", "1", ".")
    classes = ("0", "1")
    preset = "rotor"

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
    >>> [task.classify_text(text) for text in ("w1i0r", "w1i0r1w0r", "r", "w1w", "ww10")]
    ['1', '0', '0', '1', '1']
    """

    name = "flip-flop-language"
    description = "the bit last written, which is read next"
    vocab = ("w", "r", "i", "0", "1")
    classes = ("0", "1")
    lengths = range(1, ENDLESS, 2)
    preset = "router"
    length = 17

    def __init__(self, percent: int | None = None) -> None:
        if percent is not None:
            self.name = f"{self.name}-{percent}"
            if percent > 99:
                raise InputError(
                    f"{self.name} is out of range: write flip-flop-language-0 to flip-flop-language-99"
                )
        self.ignored = (80 if percent is None else percent) / 100

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

    def _draw(self, count: int, length: int, draws: Draws) -> Whole:
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
