"""Word problems of cyclic groups: what is the sum of the numbers read, modulo n?"""

from collections.abc import Sequence
from math import gcd

from csprop.errors import InputError
from csprop.tasks.base import Task
from csprop.tasks.group import check_generated, spaced

LARGEST = 1000
"""The largest cyclic group that has a task."""


class Cyclic(Task):
    """The sum of numbers modulo n: the word problem of the cyclic group Cn.

    In `group-Cn` the tokens are two numbers, 1 and one near 2n/5; in `group-Cn-all` every number below
    n is a token, and in `group-Cn-K` only K of them: every (n/K)-th, 0 first. The difference of the
    two numbers has no divisor in common with n, so that long words of one length have every sum.

    >>> task = Cyclic(60, every=True)
    >>> task.classes[task.truth([59, 7, 0, 55])]
    '1'
    >>> Cyclic(60, some=8).vocab
    ('0', '7', '15', '22', '30', '37', '45', '52')
    >>> Cyclic(60).vocab
    ('1', '24')
    >>> Cyclic(60).classes[Cyclic(60).truth([1, 0, 1, 1])]
    '13'
    """

    def __init__(self, size: int, every: bool = False, some: int = 0) -> None:
        group = f"C{size}"
        if not 2 <= size <= LARGEST:
            raise InputError(f"group-{group} is out of range: write group-C2 to group-C{LARGEST}")
        self.modulus = size
        self.name = f"group-{group}"
        self.description = f"the sum of the numbers read, modulo {size}"
        self.classes = tuple(map(str, range(size)))
        if every or some:
            self.numbers = tuple(spaced(group, some, size) if some else range(size))
        else:
            self.numbers = (1, _second(size))
        self.vocab = tuple(self.classes[number] for number in self.numbers)
        self.words = True
        if every or some:
            self.name += f"-{some or 'all'}"
            check_generated(self.name, some, size // gcd(size, *self.numbers), size)

    def truth(self, sequence: Sequence[int]) -> int:
        return sum(self.numbers[token] for token in sequence) % self.modulus

    def start(self) -> int:
        return 0

    def step(self, state: int, token: int) -> int:
        return (state + self.numbers[token]) % self.modulus

    def answer(self, state: int) -> int:
        return state


def _second(size: int) -> int:
    """The number nearest to 2n/5 whose difference from 1 has no divisor in common with n."""
    fit = (number for number in range(size) if gcd(number - 1, size) == 1)
    return min(fit, key=lambda number: abs(5 * number - 2 * size))
