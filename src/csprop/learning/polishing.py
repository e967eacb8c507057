"""A local search on the table of a machine, for the shortest description of the labelled rows.

A machine explains the rows but for some labels. To write the rows down with its help takes the bits of
its table and the bits that say which labels it contradicts:

    k states, V tokens, C classes     k (V log2 max(2, k) + log2 C)
    e of n labels contradicted        0 if e = 0, else log2(n + 1) + log2 (n choose e) + e log2(C − 1)

and one bit to say whether e = 0. A larger machine is worth its states only if it explains enough labels
more, and labels that are all explained are cheap, as most files have no wrong label at all. This is the
principle of minimum description length (Rissanen 1978).

Three kinds of moves are tried until none makes the description shorter: an entry of the table leads to
another state; all entries that lead to one state lead to another one; an entry leads to a copy of its
state, whose own entries are then free to lead elsewhere.
"""

import math

import numpy as np
from numpy.typing import NDArray

from csprop.learning.tree import PrefixTree, Table
from csprop.nn.compiled import MOST_PLACES
from csprop.ops import backends
from csprop.ops.native.search import polish_table

Reals = NDArray[np.float64]
MOST_STATES = MOST_PLACES
"""A larger machine could not be compiled."""
SLACK = 1e-9
WORK = 30_000_000
"""Nodes that a search may walk: at most a few seconds of the compiled one."""


def miss_bits(labels: int, classes: int) -> Reals:
    """The bits that say which of `labels` labels are contradicted, by their number."""
    missed = np.arange(labels + 1)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log2(np.arange(1, labels + 1)))])
    chosen = log_factorial[labels] - log_factorial[missed] - log_factorial[labels - missed]
    bits = 1 + math.log2(labels + 1) + chosen + missed * math.log2(max(1, classes - 1))
    bits[0] = 1
    return bits


def state_bits(most: int, symbols: int, classes: int) -> Reals:
    """The bits of a table, by its number of states up to `most`."""
    states = np.arange(most + 1)
    return states * (symbols * np.log2(np.maximum(2, states)) + math.log2(classes))


def description(tree: PrefixTree, table: Table) -> float:
    """The bits of a machine and of the labels that it contradicts."""
    symbols, classes = tree.symbols, tree.classes
    of_states = state_bits(len(table), symbols, classes)[len(table)]
    return float(of_states + miss_bits(int(tree.totals.sum()), classes)[tree.misses(table)])


def polished(tree: PrefixTree, table: Table, split: bool = True, work: int = WORK) -> Table:
    """The table after the search, its states numbered as the rows meet them; unused ones are dropped.

    Args:
        tree: the labelled rows.
        table: where the search begins.
        split: whether to try copies of states, the most expensive kind of move.
        work: how many nodes of the tree may be walked, after which the search ends where it is.
    """
    of_misses = miss_bits(int(tree.totals.sum()), tree.classes)
    most = max(MOST_STATES, len(table))
    of_states = state_bits(most, tree.symbols, tree.classes)
    if backends.backend() == "native":
        begin = np.ascontiguousarray(table, np.int32)
        return polish_table(tree.columns, tree.classes, begin, of_misses, of_states, split, work)
    return _Polishing(tree, table, of_misses, of_states).run(split)


class _Polishing:
    """The specification, which `polishing.hpp` follows move by move; it counts every row for each."""

    def __init__(
        self,
        tree: PrefixTree,
        table: Table,
        of_misses: Reals,
        of_states: Reals,
    ) -> None:
        self.tree, self.table = tree, table.copy()
        self.of_misses, self.of_states = of_misses, of_states
        self._settle()

    def run(self, split: bool) -> Table:
        while True:
            while self._redirected_some():
                pass
            if not (self._merged_some() or (split and self._split_some())):
                return self.table

    @property
    def _bits(self) -> float:
        return self.of_misses[self.misses] + self.of_states[len(self.table)]

    def _settle(self) -> None:
        """Keep the states in use, numbered as the tree meets them."""
        order, number, where = [0], {0: 0}, [0] * len(self.tree)
        entered = set()
        for node in range(1, len(self.tree)):
            entry = (where[self.tree.parent[node]], int(self.tree.token[node]))
            where[node] = here = int(self.table[entry])
            entered.add(entry)
            if here not in number:
                number[here] = len(order)
                order.append(here)
        rows = [
            [number.get(int(there), number[state]) for there in self.table[state]] for state in order
        ]
        self.table = np.array(rows, np.int32)
        self.where = [number[state] for state in where]
        self.entered = {(number[state], token) for state, token in entered}
        self.misses = self.tree.misses(self.table)

    def _tried(self, entries: list[tuple[int, int]], target: int) -> int:
        table = self.table.copy()
        for entry in entries:
            table[entry] = target
        return self.tree.misses(table)

    def _entries(self) -> list[tuple[int, int]]:
        return [
            (state, token) for state in range(len(self.table)) for token in range(self.tree.symbols)
        ]

    def _redirected(self, entry: tuple[int, int]) -> bool:
        if not self.misses or entry not in self.entered:
            return False
        others = [state for state in range(len(self.table)) if state != self.table[entry]]
        missed = [self._tried([entry], target) for target in others]
        if min(missed, default=self.misses) >= self.misses:
            return False
        self.table[entry] = others[missed.index(min(missed))]
        self._settle()
        return True

    def _redirected_some(self) -> bool:
        any_of_them, number = False, 0
        while number < self.table.size:  # a state may be dropped on the way
            any_of_them |= self._redirected(divmod(number, self.tree.symbols))
            number += 1
        return any_of_them

    def _merged_some(self) -> bool:
        any_of_them = False
        for state in range(len(self.table) - 1, 0, -1):
            if state >= len(self.table):
                continue
            entries = [entry for entry in self._entries() if self.table[entry] == state]
            others = [other for other in range(len(self.table)) if other != state]
            bits = [
                self.of_misses[self._tried(entries, other)] + self.of_states[len(self.table) - 1]
                for other in others
            ]
            if min(bits) < self._bits - SLACK:
                for entry in entries:
                    self.table[entry] = others[bits.index(min(bits))]
                self._settle()
                any_of_them = True
        return any_of_them

    def _split_some(self) -> bool:
        for entry in self._entries() if self.misses else ():
            if entry not in self.entered or not self._shared(entry):
                continue
            before, kept, count = self._bits, self.table, len(self.table)
            met = next(
                node
                for node in range(1, len(self.tree))
                if (self.where[self.tree.parent[node]], self.tree.token[node]) == entry
            )
            self.table = np.concatenate([kept, kept[kept[entry]][None]])
            self.table[entry] = count
            self._settle()
            for token in range(self.tree.symbols):
                self._redirected((self.where[met], token))
            if self._bits < before - SLACK:
                return True
            self.table = kept
            self._settle()
        return False

    def _shared(self, entry: tuple[int, int]) -> bool:
        """Whether the state that an entry leads to is entered in another way too."""
        target = self.table[entry]
        others = (other for other in self.entered if other != entry)
        return target == 0 or any(self.table[other] == target for other in others)
