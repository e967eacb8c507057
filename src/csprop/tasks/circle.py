"""Counting in a circle: parity, modular counting, and a position on a ring."""

from collections.abc import Sequence

from csprop.errors import InputError
from csprop.tasks.base import Task


class RemainderTask(Task):
    """A task with a number as its state, which starts at 0 and is the answer."""

    def start(self) -> int:
        return 0

    def answer(self, state: int) -> int:
        return state


class Parity(RemainderTask):
    """The paper's Parity Check.

    >>> Parity().classes[Parity().truth([1, 0, 1, 1])]
    'odd'
    """

    name = "parity"
    description = "is the number of 1s odd?"
    vocab = ("0", "1")
    classes = ("even", "odd")
    paper_epochs, paper_gap = "~70, ~50, 30", "3.2 ± 1.2"

    def truth(self, sequence: Sequence[int]) -> int:
        return sum(sequence) % 2

    def step(self, state: int, token: int) -> int:
        return (state + token) % 2


class CycleNav(RemainderTask):
    """Five positions on a ring, starting at 0: `-` is a step back, `.` stays, `+` is a step forward.

    >>> task = CycleNav()
    >>> [task.classes[task.truth(steps)] for steps in ([2, 1, 2], [0], [2, 2, 2, 2, 2, 2])]
    ['2', '4', '1']
    """

    name = "cycle-nav"
    description = "the position on a ring of 5, starting at 0"
    vocab = ("-", ".", "+")
    classes = ("0", "1", "2", "3", "4")

    def truth(self, sequence: Sequence[int]) -> int:
        tokens = list(sequence)
        return (tokens.count(2) - tokens.count(0)) % 5

    def step(self, state: int, token: int) -> int:
        return (state + token - 1) % 5


class Modular(RemainderTask):
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

    def step(self, state: int, token: int) -> int:
        return (state + token) % self.modulus

    def answer(self, state: int) -> int:
        return state if self.residue else int(state == 0)


class ModularReset(RemainderTask):
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

    def step(self, state: int, token: int) -> int:
        return 0 if token == 2 else (state + token) % self.modulus


def check_modulus(modulus: int, suffix: str) -> None:
    """Raise an InputError for a modulus below 2 or above 10,000."""
    if not 2 <= modulus <= 10_000:
        raise InputError(
            f"mod{modulus}{suffix} is out of range: write mod2{suffix} to mod10000{suffix}"
        )
