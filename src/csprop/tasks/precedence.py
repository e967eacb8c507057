"""Modular arithmetic with precedence: × before + and -."""

import re
from collections.abc import Sequence
from math import prod

from csprop.tasks.arithmetic import MINUS, MODULUS, PLUS, ModularArithmetic


class ModularPrecedence(ModularArithmetic):
    """The value of an expression modulo 5, where `x` is evaluated before `+` and `-`.

    For sequences that are no expressions: as in algebra, `x` may be left out, so a term is the product
    of its digits; every sign begins a new term, and a term without digits counts as 0.

    >>> task = ModularPrecedence()
    >>> def value(text): return task.classes[task.truth([task.vocab.index(each) for each in text])]
    >>> [value(text) for text in ("2+1x4", "1-3x3", "3x4", "34", "2+", "2+-1", "-1x")]
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
        """The sum of all terms but the last, the last term, and its sign as long as it has no digit."""
        total, term, sign = state
        if token < MODULUS:
            return total, (sign or term) * token % MODULUS, 0
        if token in (PLUS, MINUS):
            return (total + term) % MODULUS, 0, 1 if token == PLUS else -1
        return state

    def answer(self, state: tuple[int, ...]) -> int:
        total, term, _ = state
        return (total + term) % MODULUS
