"""Modular arithmetic: the value of an expression modulo 5, from left to right or with precedence."""

import operator
import re
from collections.abc import Sequence
from math import prod

import numpy as np

from csprop.data.draws import Draws, Whole
from csprop.tasks.base import Task

MODULUS = 5
PLUS, MINUS = 5, 6
"""The tokens of the signs; tokens below 5 are digits, and 7 is `x`."""

_OPERATIONS = {"+": operator.add, "-": operator.sub, "": operator.mul}


class ModularArithmetic(Task):
    """The digits 0 to 4, `+`, `-` and `x`: each digit is added, subtracted or multiplied in turn.

    Delétang et al. ("Neural Networks and the Chomsky Hierarchy", 2023) ask for the value of
    expressions, in which digits and operators alternate. A proof is about all sequences, so the others
    have a value as well. As in algebra, `x` may be left out: a digit multiplies, unless there is a
    sign between it and the digit before it; of several signs the last one counts. The first digit is
    added to 0, and before it the value is 0.

    >>> task = ModularArithmetic()
    >>> [task.classify_text(text) for text in ("2+1x4", "1-3", "3x4", "34", "2+", "2+-1", "-1")]
    ['2', '3', '2', '2', '2', '1', '4']
    """

    name = "modular-arithmetic"
    description = "the value modulo 5, left to right"
    vocab = ("0", "1", "2", "3", "4", "+", "-", "x")
    classes = ("0", "1", "2", "3", "4")
    preset = "router"
    samples = 20_000  # with fewer, some state is reached too rarely to be learned

    def truth(self, sequence: Sequence[int]) -> int:
        value = 0
        for signs, digit in re.findall(r"([+-]*)([0-4])", "+" + self.text(sequence).replace("x", "")):
            value = _OPERATIONS[signs[-1:]](value, int(digit))
        return value % MODULUS

    def start(self) -> tuple[int, ...]:
        return 0, 1

    def step(self, state: tuple[int, ...], token: int) -> tuple[int, ...]:
        """Return the value, and the sign of the next digit; 0 if the digit multiplies."""
        value, sign = state
        if token < MODULUS:
            return (value + sign * token if sign else value * token) % MODULUS, 0
        return value, {PLUS: 1, MINUS: -1}.get(token, sign)

    def answer(self, state: tuple[int, ...]) -> int:
        return state[0]

    def _draw(self, count: int, length: int, draws: Draws) -> Whole:
        """Draw each row either as an expression or of any tokens, with equal probability."""
        shape = (count, length)
        digits = draws.below(MODULUS, shape)
        operators = draws.below(len(self.vocab), shape, least=MODULUS)
        others = draws.below(len(self.vocab), shape)
        expressions = np.where(np.arange(length) % 2 == 0, digits, operators)
        return np.where(draws.fractions((count, 1), single=True) < 0.5, expressions, others)


class ModularPrecedence(ModularArithmetic):
    """The value of an expression modulo 5, where `x` is evaluated before `+` and `-`.

    Other sequences have a value as well: as in algebra, `x` may be left out, so a term is the product
    of its digits; every sign begins a new term, and a term without digits counts as 0.

    >>> task = ModularPrecedence()
    >>> [task.classify_text(text) for text in ("2+1x4", "1-3x3", "3x4", "34", "2+", "2+-1", "-1x")]
    ['1', '2', '2', '2', '2', '1', '4']
    """

    name = "modular-arithmetic-precedence"
    description = "the value modulo 5, x before + and -"
    places = 64

    def truth(self, sequence: Sequence[int]) -> int:
        terms = re.findall(r"([+-])([0-4x]*)", "+" + self.text(sequence))
        factors = [(sign, [int(each) for each in term.replace("x", "")]) for sign, term in terms]
        return sum(int(f"{sign}1") * prod(term) for sign, term in factors if term) % MODULUS

    def start(self) -> tuple[int, ...]:
        return 0, 0, 1

    def step(self, state: tuple[int, ...], token: int) -> tuple[int, ...]:
        """Return the sum of the terms before, the last term, and its sign before its first digit."""
        total, term, sign = state
        if token < MODULUS:
            return total, (sign or term) * token % MODULUS, 0
        if token in (PLUS, MINUS):
            return (total + term) % MODULUS, 0, 1 if token == PLUS else -1
        return state

    def answer(self, state: tuple[int, ...]) -> int:
        total, term, _ = state
        return (total + term) % MODULUS
