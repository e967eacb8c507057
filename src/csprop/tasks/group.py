"""Word problems of groups: the product of permutations, or a sum modulo n."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations, permutations, product
from math import gcd

from csprop.errors import InputError
from csprop.tasks.base import Task

Permutation = tuple[int, ...]
"""In one-line notation: entry i is the image of i."""
LARGEST = 1000
"""The largest cyclic group that has a task."""


@dataclass(frozen=True)
class Kind:
    """A symmetric or alternating group of permutations, or a product of symmetric groups."""

    degrees: tuple[int, ...]  # of each factor; the second factor permutes the points after the first's
    even: bool  # even permutations only
    order: int  # of the rotations that represent it, or each of its factors
    generators: tuple[str, ...]  # in cycle notation: (012) maps 0 to 1, 1 to 2 and 2 to 0


GROUPS = {
    "S3": Kind((3,), even=False, order=3, generators=("(01)", "(012)")),
    "A4": Kind((4,), even=True, order=3, generators=("(01)(23)", "(012)")),
    # Not (0123): like (01) it is odd, and words of one length would reach only half of the group.
    "S4": Kind((4,), even=False, order=3, generators=("(01)", "(123)")),
    "A5": Kind((5,), even=True, order=3, generators=("(012)", "(01234)")),
    "S5": Kind((5,), even=False, order=5, generators=("(01)", "(01234)")),
    # Two generators would do, but words of one length would reach only half of the group.
    "S3xS3": Kind((3, 3), even=False, order=3, generators=("(01)", "(012)", "(34)", "(345)")),
}


class Group(Task):
    """The product of permutations of a group.

    In `group-NAME` the tokens are generators, `a`, `b` and so on; in `group-NAME-all` every element is
    a token, and in `group-NAME-K` only K of them: every (order/K)-th in lexicographic order, identity
    first: no kind of permutation is preferred. The first token is applied first: reading g
    replaces the product p by g∘p: `ab` maps i to b(a(i)). The classes are permutations in
    one-line notation, identity first: "120" maps 0 to 1, 1 to 2 and 2 to 0. S3xS3 permutes the points
    0, 1, 2 and the points 3, 4, 5.

    >>> task = Group("S3")  # a = (01), b = (012)
    >>> [task.classify_text(word) for word in ("", "a", "b", "ab", "ba")]
    ['012', '102', '120', '210', '021']
    >>> Group("S3", "all").classify_text("102 120")
    '210'
    >>> Group("S4", "5").vocab
    ('0123', '0312', '1230', '2103', '3021')
    """

    preset = "rotor"

    def __init__(self, group: str, tokens: str = "") -> None:
        kind, self.name = GROUPS[group], f"group-{group}"
        self.order = kind.order
        self.elements = elements(kind)
        self.classes = tuple("".join(map(str, element)) for element in self.elements)
        self._number = {element: number for number, element in enumerate(self.elements)}
        if not tokens:
            self.tokens = tuple(cycles(each, sum(kind.degrees)) for each in kind.generators)
            self.vocab = tuple("abcd"[: len(self.tokens)])
            pairs = zip(self.vocab, kind.generators, strict=True)
            self.description = f"the product of {', '.join(f'{a}={cycle}' for a, cycle in pairs)}"
            return
        numbers = choose_elements(self.name, tokens, len(self.elements))
        self.name += f"-{tokens}"
        self.description = "the product of the permutations read"
        self.tokens = tuple(self.elements[number] for number in numbers)
        self.vocab, self.words = tuple(self.classes[number] for number in numbers), True
        if tokens != "all":
            check_generated(self, len(self.machine))

    def truth(self, sequence: Sequence[int]) -> int:
        """Follow each point through the word."""
        reached = []
        for point in self.elements[0]:
            for token in sequence:
                point = self.tokens[token][point]
            reached.append(point)
        return self.elements.index(tuple(reached))

    def start(self) -> Permutation:
        return self.elements[0]

    def step(self, state: Permutation, token: int) -> Permutation:
        return after(self.tokens[token], state)

    def answer(self, state: Permutation) -> int:
        return self._number[state]


def choose_elements(name: str, tokens: str, count: int) -> Sequence[int]:
    """Return the numbers of all of `count` elements, or of some, evenly spaced, the identity first.

    Raises:
        InputError: there are not so many, or all of them are.
    """
    some = count if tokens == "all" else int(tokens)
    if tokens != "all" and not 2 <= some < count:
        fewer = f"{name}-2 to {name}-{count - 1}" if count > 2 else f"{name}-all"
        raise InputError(f"{name}-{some}: write {fewer}")
    return [i * count // some for i in range(some)]


def check_generated(task: Task, order: int) -> None:
    """Raise an InputError if the tokens of a task generate `order` elements and not all of them."""
    if order < len(task.classes):
        raise InputError(
            f"{task.name}: these {len(task.vocab)} elements generate only {order} of "
            f"{len(task.classes)}: write another number"
        )


def after(later: Permutation, earlier: Permutation) -> Permutation:
    """Return the composition later∘earlier."""
    return tuple(later[place] for place in earlier)


def elements(kind: Kind) -> tuple[Permutation, ...]:
    """Return all elements in lexicographic order, the identity first."""
    points = iter(range(sum(kind.degrees)))
    factors = [permutations([next(points) for _ in range(degree)]) for degree in kind.degrees]
    every = (tuple(chain(*parts)) for parts in product(*factors))
    return tuple(element for element in every if not (kind.even and _odd(element)))


def _odd(permutation: Permutation) -> bool:
    inversions = sum(one > other for one, other in combinations(permutation, 2))
    return inversions % 2 == 1


def cycles(text: str, degree: int) -> Permutation:
    """Return a permutation from cycle notation.

    >>> cycles("(01)(23)", 5)
    (1, 0, 3, 2, 4)
    """
    image = list(range(degree))
    for cycle in re.findall(r"\d+", text):
        for place, following in zip(cycle, cycle[1:] + cycle[0], strict=True):
            image[int(place)] = int(following)
    return tuple(image)


class Cyclic(Task):
    """The sum of numbers modulo n: the word problem of the cyclic group Cn.

    In `group-Cn` the tokens are two numbers, 1 and one near 2n/5; in `group-Cn-all` every number below
    n is a token, and in `group-Cn-K` only K of them: every (n/K)-th, 0 first. The difference of the
    two numbers has no divisor in common with n, so long words of one length have every sum.

    >>> Cyclic(60).vocab, Cyclic(60).classify_text("24 1 24 24")
    (('1', '24'), '13')
    >>> Cyclic(60, "all").classify_text("59 7 0 55")
    '1'
    >>> Cyclic(60, "8").vocab
    ('0', '7', '15', '22', '30', '37', '45', '52')
    """

    words = True
    preset = "rotor"

    def __init__(self, size: int, tokens: str = "") -> None:
        self.modulus, self.name = size, f"group-C{size}"
        if not 2 <= size <= LARGEST:
            raise InputError(f"{self.name} is out of range: write group-C2 to group-C{LARGEST}")
        self.description = f"the sum of the numbers read, modulo {size}"
        self.classes = tuple(map(str, range(size)))
        self.numbers = choose_elements(self.name, tokens, size) if tokens else (1, _second(size))
        self.vocab = tuple(self.classes[number] for number in self.numbers)
        self.name += f"-{tokens}" if tokens else ""
        check_generated(self, size // gcd(size, *self.numbers))

    def truth(self, sequence: Sequence[int]) -> int:
        return sum(self.numbers[token] for token in sequence) % self.modulus

    def step(self, state: int, token: int) -> int:
        return (state + self.numbers[token]) % self.modulus


def _second(size: int) -> int:
    """Return the number nearest to 2n/5 whose difference from 1 has no divisor in common with n."""
    fit = (number for number in range(size) if gcd(number - 1, size) == 1)
    return min(fit, key=lambda number: abs(5 * number - 2 * size))
