"""Merging the nodes of a prefix tree into the states of a machine, although some labels may be wrong.

Evidence-driven merging (EDSM, Lang, Pearlmutter and Price 1998) refuses a merger that makes two labels
contradict each other, so one wrong label spoils it. Here a contradiction has a price. Two nodes with
labels that become one need one answer instead of two, which saves the bits of that answer; every label
that the common answer contradicts, and that the single answers did not, costs log2((1 − η)(C − 1)/η)
bits, η being the share of wrong labels. A blue node (one that a state leads to) becomes a state if
merging it with any state loses bits; otherwise the merger that gains most is done.
"""

import math
from collections.abc import Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from csprop.learning.tree import PrefixTree, Table
from csprop.ops import backends
from csprop.ops.native.search import merge_tree

BREADTH = 32
"""Blue nodes that are looked at before each step, the nearest to the first states first."""
FLOOR = -64.0
"""A merger that has lost this many bits is given up, without looking at the rest of its nodes."""


def merge(tree: PrefixTree, wrong: float, most: int, by_class: bool) -> Table | None:
    """The table that merging leads to, or None if it has more than `most` states.

    Args:
        tree: the labelled rows.
        wrong: the share of labels that are taken to be wrong, between 0 and 1.
        most: the largest number of states.
        by_class: an answer costs −log2 of its class's share, rather than the same for every class.
    """
    conflict = math.log2((1 - wrong) / wrong * max(1, tree.classes - 1))
    shares = (tree.totals + 1) / (tree.totals.sum() + tree.classes)
    agree = (-np.log2(shares) if by_class else np.full(tree.classes, math.log2(tree.classes))).tolist()
    if backends.backend() == "native":
        return merge_tree(tree.columns, agree, tree.symbols, most, BREADTH, conflict, FLOOR)
    return _Merging(tree, agree, conflict).run(most)


class _Merging:
    """The specification, which `merging.hpp` follows step by step."""

    def __init__(self, tree: PrefixTree, agree: list[float], conflict: float) -> None:
        self.agree, self.conflict = agree, conflict
        self.into = list(range(len(tree)))
        self.child: list[dict[int, int]] = [{} for _ in self.into]
        for node in range(1, len(tree)):
            self.child[tree.parent[node]][int(tree.token[node])] = node
        self.counts = np.zeros((len(tree), tree.classes), np.int64)
        self.counts[np.repeat(self.into, np.diff(tree.first)), tree.label] = tree.weight
        self.symbols = tree.symbols
        self.merged: list[tuple[int, int]] = []
        self.adopted: list[tuple[int, int]] = []

    def run(self, most: int) -> Table | None:
        red = [0]
        while blue := list(islice(self._fringe(red), BREADTH)):
            offers = [(*self._best(red, node), node) for node in blue]  # (gain, red, blue)
            least = min(offers, key=lambda offer: offer[0])
            if least[0] < 0:
                if len(red) >= most:
                    return None
                red.append(least[2])
            else:
                _, state, node = max(offers, key=lambda offer: offer[0])
                self._fold(state, node, -math.inf)
                self.merged, self.adopted = [], []
                red = [self._root(node) for node in red]
        table = np.zeros((len(red), self.symbols), np.int32)
        for state, node in enumerate(red):
            for token in range(self.symbols):
                there = self.child[node].get(token)
                table[state, token] = state if there is None else red.index(self._root(there))
        return table

    def _root(self, node: int) -> int:
        while self.into[node] != node:
            node = self.into[node]
        return node

    def _fringe(self, red: list[int]) -> Iterator[int]:
        seen = set(red)
        for node in red:
            for token in sorted(self.child[node]):
                there = self._root(self.child[node][token])
                if there not in seen:
                    seen.add(there)
                    yield there

    def _best(self, red: list[int], node: int) -> tuple[float, int]:
        gains = []
        for state in red:
            gains.append(self._fold(state, node, FLOOR))
            self._undo()
        best = max(gains)
        return best, red[gains.index(best)]

    def _gain(self, x: NDArray[np.int64], y: NDArray[np.int64]) -> float:
        if not (x.any() and y.any()):
            return 0.0
        both = x + y
        contradicted = int(x.max() + y.max() - both.max())
        return self.agree[both.argmax()] - self.conflict * contradicted

    def _fold(self, a: int, b: int, floor: float) -> float:
        gain, waiting = 0.0, [(a, b)]
        while waiting and gain >= floor:
            a, b = sorted(map(self._root, waiting.pop()))
            if a == b:
                continue
            gain += self._gain(self.counts[a], self.counts[b])
            self.into[b] = a
            self.merged.append((a, b))
            self.counts[a] += self.counts[b]
            for token in sorted(self.child[b]):
                if token in self.child[a]:
                    waiting.append((self.child[a][token], self.child[b][token]))
                else:
                    self.child[a][token] = self.child[b][token]
                    self.adopted.append((a, token))
        return gain

    def _undo(self) -> None:
        while self.adopted:
            node, token = self.adopted.pop()
            del self.child[node][token]
        while self.merged:
            a, b = self.merged.pop()
            self.into[b] = b
            self.counts[a] -= self.counts[b]
