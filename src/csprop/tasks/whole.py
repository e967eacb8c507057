"""Tasks that ask about whole rows: a prefix of a row has no answer, and no proof exists."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from csprop.data.draws import Draws, TorchDraws, Whole
from csprop.data.examples import UNLABELLED, Examples
from csprop.errors import InputError
from csprop.tasks.arithmetic import MODULUS
from csprop.tasks.base import Task

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
    counters solve such a task.
    """

    finite = False
    total = False

    def encoded(self, texts: list[str], length: int) -> Whole:
        """Return the tokens of written sequences of one length, (N, T)."""
        numbers = [[self.vocab.index(each) for each in text] for text in texts]
        return np.array(numbers, np.int64).reshape(len(texts), length)

    def classify(self, tokens: Whole) -> Whole:
        """Return the class of every row after its last token, and no label before it."""
        labels = np.full(tokens.shape, UNLABELLED, np.int64)
        labels[:, -1] = [self.truth(row) for row in tokens.tolist()]
        return labels

    def examples(self, count: int, length: int, generator: "Generator") -> Examples:
        """Draw rows of all lengths that the task has up to `length`, each with the same probability."""
        import torch

        self.check_length(length)
        lengths = [each for each in range(1, length + 1) if self.has_length(each)]
        drawn = np.bincount(TorchDraws(generator).below(len(lengths), (count,)), minlength=len(lengths))
        tokens = torch.zeros(count, length, dtype=torch.int64)
        labels, answers = torch.full_like(tokens, UNLABELLED), torch.zeros_like(tokens).bool()
        end = 0
        for size, rows in zip(lengths, drawn.tolist(), strict=True):
            some = slice(end, end := end + rows)
            tokens[some, :size] = self.sample(rows, size, generator)
            labels[some, :size] = self.labels(tokens[some, :size])
            answers[some, size - 1] = True
        return Examples.from_matrices(tokens, labels, answers)


class MissingDuplicate(WholeTask):
    """A string of bits and the same string again, with `_` in place of one bit: which bit is it?

    Delétang et al. ("Neural Networks and the Chomsky Hierarchy", 2023). No stack is enough for it.
    Lengths are even. Any other sequence has class 0.

    >>> task = MissingDuplicate()
    >>> def missing(text): return task.classes[task.truth([task.vocab.index(each) for each in text])]
    >>> [missing(text) for text in ("0110_110", "01100_10", "_1", "0_")]
    ['0', '1', '1', '0']
    """

    name = "missing-duplicate"
    description = "the bit missing in w w"
    vocab = ("0", "1", "_")
    classes = ("0", "1")

    def truth(self, sequence: Sequence[int]) -> int:
        """1 if a 1 in place of the blank makes the string a double one."""
        text = self.text(sequence)
        full, half = text.replace("_", "1"), len(text) // 2
        return int(text.count("_") == 1 and full[:half] == full[half:])

    def start(self) -> tuple[int, ...]:
        return ()

    def step(self, state: tuple[int, ...], token: int) -> tuple[int, ...]:
        return *state, token

    def answer(self, state: tuple[int, ...]) -> int:
        """1 if a 1 and the blank are the only pair of tokens in the same place that are not equal."""
        half = len(state) // 2
        unequal = [
            set(pair) for pair in zip(state[:half], state[half:], strict=False) if len({*pair}) > 1
        ]
        return int(len(state) == 2 * half and unequal == [{1, BLANK}] and state.count(BLANK) == 1)

    def check_length(self, length: int) -> None:
        super().check_length(length)
        if length % 2:
            raise InputError(
                f"{self.name}: no string of odd length {length} is written twice: write {length + 1}"
            )

    def draw(self, count: int, length: int, draws: Draws) -> Whole:
        self.check_length(length)
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
        return valued(reduced(self.text(sequence))) or 0

    def start(self) -> str:
        return ""

    def step(self, state: str, token: int) -> str:
        """Return the text so far, with every closed bracket replaced by its value."""
        return closed(state + self.vocab[token])

    def answer(self, state: str) -> int:
        return valued(state) or 0

    def draw(self, count: int, length: int, draws: Draws) -> Whole:
        self.check_length(length)
        lots = draws.fractions((count, length)).tolist()
        return self.encoded([expression(each, "+-*") for each in lots], length)


def expression(lots: Sequence[float], operators: str) -> str:
    """Return an expression with one token for each random number."""
    size = len(lots)
    if size < 5:
        form = ("{}", "-{}", "({})", "(-{})")[size - 1]
        return form.format(int(MODULUS * lots[size // 2]))
    middle = 2 + int((size - 4) * lots[0])
    operator = operators[int(len(operators) * lots[middle])]
    left, right = lots[1:middle], lots[middle + 1 : -1]
    return f"({expression(left, operators)}{operator}{expression(right, operators)})"


def reduced(text: str) -> str:
    """Return the text, in which every bracket that has a value is replaced by it."""
    changes = 1
    while changes:
        text, changes = _BRACKET.subn(_value, text)
    return text


def closed(text: str) -> str:
    """Return the text, in which a bracket at the end is replaced by its value, if it has one."""
    begin = text.rfind("(") if text.endswith(")") else -1
    bracket = _BRACKET.fullmatch(text, begin) if begin >= 0 else None
    return text if bracket is None else text[:begin] + _value(bracket)


def valued(text: str) -> int | None:
    """Return the value of a digit with or without a sign; None for anything else."""
    return int(text) % MODULUS if re.fullmatch("-?[0-4]", text) else None


def _value(bracket: re.Match[str]) -> str:
    one, operator, other = int(bracket[1]), bracket[2], int(bracket[3] or 0)
    values = {None: one, "+": one + other, "-": one - other, "*": one * other}
    return str(values[operator] % MODULUS)


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
        text = self.text(sequence)
        return _first_true([reduced(text.replace("x", value)) for value in self.classes])

    def start(self) -> tuple[str, ...]:
        return ("",) * MODULUS

    def step(self, state: tuple[str, ...], token: int) -> tuple[str, ...]:
        """Return the text so far for each value of the unknown; closed brackets are values."""
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
    """Return an expression of all random numbers but the last, which decides where the unknown is."""
    left = expression(lots[:-1], "+-")
    digits = [place for place, symbol in enumerate(left) if symbol.isdecimal()]
    place = digits[int(len(digits) * lots[-1])]
    return f"{left[:place]}x{left[place + 1 :]}={valued(reduced(left))}"


def _first_true(equations: Sequence[str]) -> int:
    """Return the first of some equations of values that is true; 0 if none is."""
    for number, equation in enumerate(equations):
        sides = [valued(side) for side in equation.split("=")]
        if len(sides) == 2 and sides[0] is not None and sides[0] == sides[1]:
            return number
    return 0
