"""Tasks that ask about whole rows: a prefix of a row has no answer, and no proof exists."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from csprop.data.draws import Draws, TorchDraws, Whole
from csprop.data.examples import UNLABELLED, Examples
from csprop.tasks.arithmetic import MODULUS
from csprop.tasks.base import ENDLESS, Task
from csprop.tasks.near import draw_examples, draw_lengths

if TYPE_CHECKING:
    from torch import Generator

_BRACKET = re.compile(r"\((-?[0-4])(?:([-+*])(-?[0-4]))?\)")
"""A bracket around one value, or around an operator and two."""
BLANK = 2
"""The token in place of the missing bit."""


class WholeTask(Task):
    """A task whose sequences have a form of their own, with one answer at the end.

    Only the last step of a row has a label. Sequences of another form have class 0 or any other one,
    which means nothing, so nothing is tested on every input. Neither a finite machine nor
    counters solve such a task: its state is the whole sequence so far.
    """

    preset = "rotor"
    finite = False
    total = False

    def start(self) -> tuple[int, ...]:
        return ()

    def step(self, state: tuple[int, ...], token: int) -> tuple[int, ...]:
        return *state, token

    def answer(self, state: tuple[int, ...]) -> int:
        return self.truth(state)

    def encode(self, texts: list[str], length: int) -> Whole:
        """Return the tokens of written sequences of one length, (N, T)."""
        numbers = [[self.vocab.index(each) for each in text] for text in texts]
        return np.array(numbers, np.int64).reshape(len(texts), length)

    def classify(self, tokens: Whole) -> Whole:
        """Return the class of every row after its last token, and no label before it."""
        labels = np.full(tokens.shape, UNLABELLED, np.int64)
        labels[:, -1] = [self.truth(row) for row in tokens.tolist()]
        return labels

    def examples(self, count: int, length: int, generator: "Generator") -> Examples:
        """Draw rows of all lengths that the task has up to `length`, the shortest first."""
        draws = TorchDraws(generator)
        return draw_examples(self, np.sort(draw_lengths(self, count, length, draws)), draws)


class MissingDuplicate(WholeTask):
    """A string of bits and the same string again, with `_` in place of one bit: which bit is it?

    Delétang et al. ("Neural Networks and the Chomsky Hierarchy", 2023). No stack is enough for it.
    Lengths are even. Any other sequence has class 0.

    >>> [MissingDuplicate().classify_text(text) for text in ("0110_110", "01100_10", "_1", "0_")]
    ['0', '1', '1', '0']
    """

    name = "missing-duplicate"
    description = "the bit missing in w w"
    vocab = ("0", "1", "_")
    classes = ("0", "1")
    lengths = range(2, ENDLESS, 2)

    def truth(self, sequence: Sequence[int]) -> int:
        """1 if a 1 in place of the blank makes the string a double one."""
        text = self.text(sequence)
        full, half = text.replace("_", "1"), len(text) // 2
        return int(text.count("_") == 1 and full[:half] == full[half:])

    def _draw(self, count: int, length: int, draws: Draws) -> Whole:
        bits = draws.below(2, (count, length // 2))
        tokens = np.concatenate([bits, bits], axis=1)
        tokens[np.arange(count), draws.below(length, (count,))] = BLANK
        return tokens


class ModularBrackets(WholeTask):
    """Expressions with `+`, `-`, `*` and brackets around every operation: the value modulo 5.

    Delétang et al. ("Neural Networks and the Chomsky Hierarchy", 2023): an expression is a digit, `-`
    and a digit, one of these in brackets, or an operation on two expressions in brackets. Its value
    takes a stack. The value 0 is more frequent than the others, because a product with a 0 is 0.

    >>> task = ModularBrackets()
    >>> [task.classify_text(text) for text in ("3", "-1", "(-2)", "((2+4)*(1-3))", "(1--2)")]
    ['3', '4', '3', '3', '3']
    """

    name = "modular-arithmetic-brackets"
    description = "the value modulo 5 of brackets"
    vocab = ("0", "1", "2", "3", "4", "+", "-", "*", "(", ")")
    classes = ("0", "1", "2", "3", "4")

    def truth(self, sequence: Sequence[int]) -> int:
        return evaluate(self.text(sequence)) or 0

    def _draw(self, count: int, length: int, draws: Draws) -> Whole:
        lots = draws.fractions((count, length)).tolist()
        return self.encode([write_expression(each, "+-*") for each in lots], length)


class SolveEquation(WholeTask):
    """Which value of `x` solves the equation, modulo 5?

    Delétang et al. ("Neural Networks and the Chomsky Hierarchy", 2023): one digit of an expression with
    `+`, `-` and brackets is replaced by `x`, and its value is written after `=`. Without products there
    is exactly one solution. Of anything else the least solution counts, or 0.

    >>> [SolveEquation().classify_text(text) for text in ("x=3", "-x=3", "((2-x)+1)=4", "(x--2)=1")]
    ['3', '2', '4', '4']
    """

    name = "solve-equation"
    description = "the value of x modulo 5"
    vocab = ("0", "1", "2", "3", "4", "+", "-", "(", ")", "x", "=")
    classes = ("0", "1", "2", "3", "4")
    lengths = range(3, ENDLESS)

    def truth(self, sequence: Sequence[int]) -> int:
        for number, value in enumerate(self.classes):
            sides = list(map(evaluate, self.text(sequence).replace("x", value).split("=")))
            if len(sides) == 2 and sides[0] is not None and sides[0] == sides[1]:
                return number
        return 0

    def _draw(self, count: int, length: int, draws: Draws) -> Whole:
        lots = draws.fractions((count, length - 1)).tolist()
        return self.encode([_write_equation(each) for each in lots], length)


def write_expression(lots: Sequence[float], operators: str) -> str:
    """Return an expression with one token for each random number."""
    size = len(lots)
    if size < 5:
        form = ("{}", "-{}", "({})", "(-{})")[size - 1]
        return form.format(int(MODULUS * lots[size // 2]))
    middle = 2 + int((size - 4) * lots[0])
    operator = operators[int(len(operators) * lots[middle])]
    left, right = lots[1:middle], lots[middle + 1 : -1]
    return f"({write_expression(left, operators)}{operator}{write_expression(right, operators)})"


def _write_equation(lots: Sequence[float]) -> str:
    """Return an expression of all random numbers but the last, which decides where the unknown is."""
    left = write_expression(lots[:-1], "+-")
    digits = [place for place, symbol in enumerate(left) if symbol.isdecimal()]
    place = digits[int(len(digits) * lots[-1])]
    return f"{left[:place]}x{left[place + 1 :]}={evaluate(left)}"


def evaluate(text: str) -> int | None:
    """Return the value of an expression modulo 5; None for anything else.

    Innermost brackets are replaced by their values until none is left.
    """
    changes = 1
    while changes:
        text, changes = _BRACKET.subn(_evaluate_bracket, text)
    return int(text) % MODULUS if re.fullmatch("-?[0-4]", text) else None


def _evaluate_bracket(bracket: re.Match[str]) -> str:
    one, operator, other = int(bracket[1]), bracket[2], int(bracket[3] or 0)
    values = {None: one, "+": one + other, "-": one - other, "*": one * other}
    return str(values[operator] % MODULUS)
