"""Modular counting: the number of ones modulo K, as a residue or as a yes-or-no question."""

from collections.abc import Sequence

import numpy as np

from csprop.errors import InputError
from csprop.tasks.base import Task
from csprop.tasks.draws import Whole


class Modular(Task):
    """`modK`: is the count of ones divisible by K? `modK-residue`: what is it modulo K?

    The paper's Mod-3 Counting is described as the former, and its chance level of 33% belongs to the
    latter.

    >>> Modular(3).classes[Modular(3).truth([1, 0, 1, 1])]
    'yes'
    >>> Modular(5, residue=True).classes[Modular(5, residue=True).truth([1, 0, 1, 1])]
    '3'
    """

    vocab = ("0", "1")

    def __init__(self, modulus: int, residue: bool = False) -> None:
        suffix = "-residue" if residue else ""
        check_modulus(modulus, suffix)
        self.modulus, self.residue = modulus, residue
        self.name = f"mod{modulus}{suffix}"
        self.description = (
            f"the number of 1s modulo {modulus}"
            if residue
            else f"is the number of 1s divisible by {modulus}?"
        )
        self.classes = tuple(map(str, range(modulus))) if residue else ("no", "yes")
        if modulus == 3 and not residue:  # the paper's Mod-3 Counting
            self.paper_epochs, self.paper_gap = "~50, –, 80", "8.4 ± 2.1"

    def truth(self, sequence: Sequence[int]) -> int:
        remainder = sum(sequence) % self.modulus
        return remainder if self.residue else int(remainder == 0)

    def classify(self, tokens: Whole) -> Whole:
        remainder = tokens.cumsum(axis=1, dtype=np.int64) % self.modulus
        return remainder if self.residue else (remainder == 0).astype(np.int64)

    def start(self) -> int:
        return 0

    def step(self, state: int, token: int) -> int:
        return (state + token) % self.modulus

    def answer(self, state: int) -> int:
        return state if self.residue else int(state == 0)


def check_modulus(modulus: int, suffix: str) -> None:
    """Raise an InputError for a modulus below 2 or above 10,000."""
    if not 2 <= modulus <= 10_000:
        raise InputError(
            f"mod{modulus}{suffix} is out of range: write mod2{suffix} to mod10000{suffix}"
        )
