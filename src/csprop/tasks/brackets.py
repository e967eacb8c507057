"""Modular arithmetic with brackets: the value of an expression modulo 5."""

import re
from collections.abc import Sequence

from csprop.data.draws import Draws, Whole
from csprop.tasks.arithmetic import MODULUS
from csprop.tasks.whole import WholeTask

_BRACKET = re.compile(r"\((-?[0-4])(?:([-+*])(-?[0-4]))?\)")
"""A bracket around one value, or around an operator and two."""


class ModularBrackets(WholeTask):
    """Expressions with `+`, `-`, `*` and brackets around every operation: the value modulo 5.

    Delétang et al. ("Neural Networks and the Chomsky Hierarchy", 2023): an expression is a digit, `-`
    and a digit, one of these in brackets, or an operation on two expressions in brackets. Its value
    takes a stack. The value 0 is more frequent than the others, because a product with a 0 is 0.

    >>> task = ModularBrackets()
    >>> def value(text): return task.classes[task.truth([task.vocab.index(each) for each in text])]
    >>> [value(text) for text in ("3", "-1", "(-2)", "((2+4)*(1-3))", "(1--2)")]
    ['3', '4', '3', '3', '3']
    """

    name = "modular-arithmetic-brackets"
    description = "the value modulo 5 of brackets"
    vocab = ("0", "1", "2", "3", "4", "+", "-", "*", "(", ")")
    classes = ("0", "1", "2", "3", "4")

    def truth(self, sequence: Sequence[int]) -> int:
        """Replace innermost brackets by their values until none is left."""
        return valued(reduced(self.text(list(sequence)))) or 0

    def start(self) -> str:
        return ""

    def step(self, state: str, token: int) -> str:
        """What was read, in which every bracket is replaced by its value as soon as it is closed."""
        return closed(state + self.vocab[token])

    def answer(self, state: str) -> int:
        return valued(state) or 0

    def draw(self, count: int, length: int, draws: Draws) -> Whole:
        self.check_length(length)
        lots = draws.fractions((count, length)).tolist()
        return self.encoded([expression(each, "+-*") for each in lots], length)


def expression(lots: Sequence[float], operators: str) -> str:
    """An expression of as many tokens as there are random numbers, each of which decides one token."""
    size = len(lots)
    if size < 5:
        form = ("{}", "-{}", "({})", "(-{})")[size - 1]
        return form.format(int(MODULUS * lots[size // 2]))
    middle = 2 + int((size - 4) * lots[0])
    operator = operators[int(len(operators) * lots[middle])]
    left, right = lots[1:middle], lots[middle + 1 : -1]
    return f"({expression(left, operators)}{operator}{expression(right, operators)})"


def reduced(text: str) -> str:
    """The text, in which every bracket that has a value is replaced by it."""
    changes = 1
    while changes:
        text, changes = _BRACKET.subn(_value, text)
    return text


def closed(text: str) -> str:
    """The text, in which a bracket at the end is replaced by its value, if it has one."""
    begin = text.rfind("(") if text.endswith(")") else -1
    found = _BRACKET.fullmatch(text, begin) if begin >= 0 else None
    return text if found is None else text[:begin] + _value(found)


def valued(text: str) -> int | None:
    """The value of a digit with or without a sign; None for anything else."""
    return int(text) % MODULUS if re.fullmatch("-?[0-4]", text) else None


def _value(bracket: re.Match[str]) -> str:
    one, operator, other = int(bracket[1]), bracket[2], int(bracket[3] or 0)
    values = {None: one, "+": one + other, "-": one - other, "*": one * other}
    return str(values[operator] % MODULUS)
