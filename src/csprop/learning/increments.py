"""A list of counters worth trying: the counters whose views tell most about the labels.

A counter is a vector: the number that each token adds to it. Up to a factor and a sign there are few
vectors of small numbers. For a small vocabulary all are tried; for a large one, the vectors with two
tokens, and then the best of them with one token more. A vector is judged without a machine, by the bits
that the labels take given the view that a control has of the counter: the sign of the count, whether it
was ever negative and ever positive, and the last token. At first all labels are equally likely. A cell
of c labels, with n, m, … of each class, takes log2 (c + C − 1)! / ((C − 1)! n! m! …) bits, so many
cells with few labels each gain nothing. Counters that only rise or only fall are left out, because a
finite machine sees as much.
"""

import math
from collections.abc import Iterable
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from csprop.learning.tree import PrefixTree

Ints = NDArray[np.int64]
Vector = tuple[int, ...]
Counters = tuple[Vector, ...]
"""The numbers that the tokens add, for each counter."""

BITS = {0: 1.0, 1: 3.0, 2: 4.0}
"""The bits of an increment by its size, with the sign: small ones are likelier."""
WHOLE = 5
"""The largest vocabulary for which all vectors are tried."""
LABELS = 2000
"""Labels by which vectors are judged; of more, some are drawn."""
POOL, BEAM = 16, 8
"""Vectors that are combined; vectors that get one token more."""
SINGLE, PAIRS, TRIPLES = 3, 3, 2
"""Candidates with one, two and three counters."""


def bits(counters: Counters) -> float:
    """The bits that say how many counters there are, and what each token adds to each."""
    return len(counters) + sum(BITS[abs(each)] for vector in counters for each in vector)


def propose_counters(tree: PrefixTree) -> list[Counters]:
    """Counters to try, those with the best prospects first; none if no counter tells of the labels."""
    judge = _Judge(tree)
    vectors = sorted(_vectors(judge), key=lambda vector: judge.bits((vector,)))
    plain = [vector for vector in vectors if sum(map(abs, vector)) == 2][:POOL]
    if not vectors or judge.bits((vectors[0],)) >= judge.bits(()):
        return []
    pool = list(dict.fromkeys(vectors[:POOL] + plain))
    pairs = judge.best(combinations(pool, 2), PAIRS) + judge.best(combinations(plain, 2), 1)
    threes = [(*pair, vector) for pair in pairs for vector in pool if vector not in pair]
    triples = [each for each in judge.best(threes, TRIPLES) if judge.bits(each) < judge.bits(pairs[0])]
    found = [*((vector,) for vector in vectors[:SINGLE]), *pairs, *triples]
    return [each for each in dict.fromkeys(found) if judge.bits(each) < judge.bits(())]


def _vectors(judge: "_Judge") -> list[Vector]:
    if judge.symbols <= WHOLE:
        return [each for each in product(range(-2, 3), repeat=judge.symbols) if _is_counter(each)]
    found = [
        _with(_with((0,) * judge.symbols, one, up), other, -down)
        for one, other in combinations(range(judge.symbols), 2)
        for up, down in ((1, 1), (1, 2), (2, 1))
    ]
    edge = found
    for _ in range(judge.symbols - 2):
        edge = [vector for (vector,) in judge.best([(each,) for each in edge], BEAM)]
        more = {
            _with(vector, token, size)
            for vector in edge
            for token in range(judge.symbols)
            for size in (-2, -1, 1, 2)
            if vector[token] == 0
        }
        found, edge = [*found, *sorted(more)], sorted(more)
        if len(found) > 1 << 13:
            break
    return list(filter(_is_counter, found))


def _is_counter(vector: Vector) -> bool:
    """Return True if it rises and falls, rises first, and has no common factor."""
    sizes = [each for each in vector if each]
    return bool(sizes) and sizes[0] > 0 > min(sizes) and math.gcd(*sizes) == 1


def _with(vector: Vector, token: int, size: int) -> Vector:
    return (*vector[:token], size, *vector[token + 1 :])


class _Judge:
    """Labels, and what can be seen of a counter where they stand."""

    def __init__(self, tree: PrefixTree) -> None:
        self.symbols, self.classes = tree.symbols, tree.classes
        node = np.repeat(np.arange(len(tree)), np.diff(tree.first))
        node, label = np.repeat(node, tree.weight), np.repeat(tree.label, tree.weight)
        if len(node) > LABELS:
            drawn = np.random.default_rng(0).choice(len(node), LABELS, replace=False)
            node, label = node[drawn], label[drawn]
        self.label, self.last = label, tree.token[node]
        self.tokens = _paths(tree, node)  # (N, T)
        self.seen: dict[Vector, Ints] = {}
        numbers = np.arange(1.0, len(label) + self.classes)
        self.factorial = np.append(0.0, np.cumsum(np.log2(numbers)))  # its logarithm

    def bits(self, counters: Counters) -> float:
        """The bits of the labels given the views of some counters, and of the counters."""
        cells = self.last.astype(np.int64)
        for vector in counters:
            cells = cells * 12 + self._views(vector)
        _, cells = np.unique(cells, return_inverse=True)
        size = self.classes * (cells.max() + 1)
        counts = np.bincount(cells * self.classes + self.label, minlength=size)
        counts = counts.reshape(-1, self.classes)
        each = self.factorial[counts].sum() + len(counts) * self.factorial[self.classes - 1]
        total = self.factorial[counts.sum(axis=1) + self.classes - 1].sum()
        return float(total - each) + bits(counters)

    def best(self, several: Iterable[Counters], most: int) -> list[Counters]:
        """Return the counters with the fewest bits."""
        return sorted(several, key=self.bits)[:most]

    def _views(self, vector: Vector) -> Ints:
        """Return the view of a count, 0 to 11: its sign, and whether it was ever below or above 0."""
        if vector not in self.seen:
            counts = np.array([*vector, 0])[self.tokens].cumsum(axis=1)
            low, high = counts.min(axis=1) < 0, counts.max(axis=1) > 0
            self.seen[vector] = (np.sign(counts[:, -1]) + 1) * 4 + low * 2 + high
        return self.seen[vector]


def _paths(tree: PrefixTree, nodes: Ints) -> Ints:
    """Return the tokens that lead to some nodes, (N, T), padded on the left with one more token."""
    steps: list[Ints] = []
    here = nodes
    while here.any():
        steps.append(np.where(here > 0, tree.token[here], tree.symbols))
        here = tree.parent[here]
    return np.array([*reversed(steps)], np.int64).reshape(len(steps), len(nodes)).T


def node_counts(tree: PrefixTree) -> Ints:
    """Return how often each token occurs on the way to each node, (symbols, N).

    The sums along the way from the root are made by doubling: an ancestor, then one twice as far.
    """
    total = (tree.token == np.arange(tree.symbols)[:, None]).astype(np.int64)
    total[:, 0] = 0
    above = tree.parent.astype(np.int64)
    while above.any():
        total, above = total + total[:, above], above[above]
    return total
