"""Solve an equation: the value of its unknown modulo 5."""

from collections.abc import Sequence

from csprop.data.draws import Draws, Whole
from csprop.errors import InputError
from csprop.tasks.arithmetic import MODULUS
from csprop.tasks.brackets import closed, expression, reduced, valued
from csprop.tasks.whole import WholeTask


class SolveEquation(WholeTask):
    """Which value of `x` makes the equation true, modulo 5?

    Delétang et al. ("Neural Networks and the Chomsky Hierarchy", 2023): one digit of an expression with
    `+`, `-` and brackets is replaced by `x`, and its value is written after `=`. Without products there
    is exactly one solution. Of anything else the least solution counts, or 0.

    >>> task = SolveEquation()
    >>> def solution(text): return task.classes[task.truth([task.vocab.index(each) for each in text])]
    >>> [solution(text) for text in ("x=3", "-x=3", "((2-x)+1)=4", "(x--2)=1")]
    ['3', '2', '4', '4']
    """

    name = "solve-equation"
    description = "the value of x modulo 5"
    vocab = ("0", "1", "2", "3", "4", "+", "-", "(", ")", "x", "=")
    classes = ("0", "1", "2", "3", "4")

    def truth(self, sequence: Sequence[int]) -> int:
        text = self.text(list(sequence))
        return _first_true([reduced(text.replace("x", value)) for value in self.classes])

    def start(self) -> tuple[str, ...]:
        return ("",) * MODULUS

    def step(self, state: tuple[str, ...], token: int) -> tuple[str, ...]:
        """What was read with each value of the unknown in its place; closed brackets are values."""
        symbol = self.vocab[token]
        added = self.classes if symbol == "x" else (symbol,) * MODULUS
        return tuple(closed(text + each) for text, each in zip(state, added, strict=True))

    def answer(self, state: tuple[str, ...]) -> int:
        return _first_true(state)

    def check_length(self, length: int) -> None:
        if length < 3:
            raise InputError(f"{self.name}: length {length} is too short: write 3 or more")

    def draw(self, count: int, length: int, draws: Draws) -> Whole:
        self.check_length(length)
        lots = draws.fractions((count, length - 1)).tolist()
        return self.encoded([_equation(each) for each in lots], length)


def _equation(lots: Sequence[float]) -> str:
    """An expression of all random numbers but the last, which decides where the unknown is."""
    left = expression(lots[:-1], "+-")
    digits = [place for place, symbol in enumerate(left) if symbol.isdecimal()]
    place = digits[int(len(digits) * lots[-1])]
    return f"{left[:place]}x{left[place + 1 :]}={valued(reduced(left))}"


def _first_true(equations: Sequence[str]) -> int:
    """The first of some equations of values that is true; 0 if none is."""
    for number, equation in enumerate(equations):
        sides = [valued(side) for side in equation.split("=")]
        if len(sides) == 2 and sides[0] is not None and sides[0] == sides[1]:
            return number
    return 0
