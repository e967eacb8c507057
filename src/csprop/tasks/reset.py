"""Modular counting with a reset: the number of ones since the last reset, modulo K."""

from collections.abc import Sequence

from csprop.tasks.base import Task
from csprop.tasks.modular import check_modulus


class ModularReset(Task):
    """`modK-reset`: the number of ones since the last `r`, or since the beginning, modulo K.

    >>> task = ModularReset(3)
    >>> [task.classes[task.truth(s)] for s in ([1, 1], [1, 1, 2], [1, 2, 1, 0, 1], [1, 1, 1, 1])]
    ['2', '0', '2', '1']
    """

    vocab = ("0", "1", "r")

    def __init__(self, modulus: int) -> None:
        check_modulus(modulus, "-reset")
        self.modulus = modulus
        self.name = f"mod{modulus}-reset"
        self.description = f"1s since the last r, modulo {modulus}"
        self.classes = tuple(map(str, range(modulus)))

    def truth(self, sequence: Sequence[int]) -> int:
        tokens = list(sequence)
        last = max((t for t, token in enumerate(tokens) if token == 2), default=-1)
        return tokens[last + 1 :].count(1) % self.modulus

    def start(self) -> int:
        return 0

    def step(self, state: int, token: int) -> int:
        return 0 if token == 2 else (state + token) % self.modulus

    def answer(self, state: int) -> int:
        return state
