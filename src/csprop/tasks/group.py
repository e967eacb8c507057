"""Word problems of groups: which element is the product of the elements read?"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from csprop.errors import InputError
from csprop.tasks.base import Task

Permutation = tuple[int, ...]
"""In one-line notation: entry i is the image of i."""


@dataclass(frozen=True)
class Kind:
    """A symmetric or alternating group of permutations."""

    degree: int
    even: bool  # even permutations only
    order: int  # of the rotations that represent it
    generators: tuple[str, str]  # in cycle notation: (012) maps 0 to 1, 1 to 2 and 2 to 0


GROUPS = {
    "S3": Kind(3, even=False, order=3, generators=("(01)", "(012)")),
    "A4": Kind(4, even=True, order=3, generators=("(01)(23)", "(012)")),
    # Not (0123): like (01) it is odd, and words of one length would reach only half of the group.
    "S4": Kind(4, even=False, order=3, generators=("(01)", "(123)")),
    "A5": Kind(5, even=True, order=3, generators=("(012)", "(01234)")),
    "S5": Kind(5, even=False, order=5, generators=("(01)", "(01234)")),
}


class Group(Task):
    """The product of permutations of a group.

    In `group-NAME` the tokens are two generators, `a` and `b`; in `group-NAME-all` every element is a
    token. The first token is applied first: reading g replaces the product p by g∘p, so that `ab` maps
    i to b(a(i)). The classes are permutations in one-line notation, identity first: "120" maps 0 to 1,
    1 to 2 and 2 to 0.

    >>> task = Group("S3")  # a = (01), b = (012)
    >>> [task.classes[task.truth(word)] for word in ([], [0], [1], [0, 1], [1, 0])]
    ['012', '102', '120', '210', '021']
    >>> task = Group("S3", every=True)
    >>> task.vocab
    ('012', '021', '102', '120', '201', '210')
    >>> task.classes[task.truth([2, 3])]  # 102 and then 120
    '210'
    """

    def __init__(self, group: str, every: bool = False) -> None:
        if group not in GROUPS:
            known = ", ".join(GROUPS)
            raise InputError(
                f"there is no task for the group {group!r}: write group-NAME with NAME = {known}"
            )
        kind = GROUPS[group]
        self.order = kind.order
        self.elements = elements(kind)
        self.classes = tuple("".join(map(str, element)) for element in self.elements)
        self._number = {element: number for number, element in enumerate(self.elements)}
        a, b = kind.generators
        if every:
            self.name = f"group-{group}-all"
            self.description = "the product of the permutations read"
            self.tokens, self.vocab, self.words = self.elements, self.classes, True
        else:
            self.name = f"group-{group}"
            self.description = f"the product of a={a}, b={b}"
            self.tokens, self.vocab = (cycles(a, kind.degree), cycles(b, kind.degree)), ("a", "b")

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


def after(later: Permutation, earlier: Permutation) -> Permutation:
    """The composition later∘earlier."""
    return tuple(later[place] for place in earlier)


def elements(kind: Kind) -> tuple[Permutation, ...]:
    """All elements in lexicographic order, the identity first."""
    every = permutations(range(kind.degree))
    return tuple(element for element in every if not (kind.even and _odd(element)))


def _odd(permutation: Permutation) -> bool:
    inversions = sum(one > other for one, other in combinations(permutation, 2))
    return inversions % 2 == 1


def cycles(text: str, degree: int) -> Permutation:
    """A permutation from cycle notation.

    >>> cycles("(01)(23)", 5)
    (1, 0, 3, 2, 4)
    """
    image = list(range(degree))
    for cycle in re.findall(r"\d+", text):
        for place, following in zip(cycle, cycle[1:] + cycle[0], strict=True):
            image[int(place)] = int(following)
    return tuple(image)
