"""The control of a machine that counts: the table that describes a tree of tokens and views shortest.

Many entries of such a table are taken by no row. They lead where most states lead with their symbol, so
states that no row tells apart become equal; a state that no row leaves is never left.
Then the table is polished again, many times: from the best table so far, with one state twice and some
entries changed at random.
"""

import numpy as np
from numpy.typing import NDArray

from csprop.learning.candidates import MOST_MERGED, WRONG, best
from csprop.learning.description import miss_bits, state_bits, table_bits
from csprop.learning.merging import merge
from csprop.learning.polishing import polish
from csprop.learning.tree import PrefixTree, Table

KICK = 4
"""Entries that are changed at random before a search."""
KICKED = 300_000
"""Nodes of the tree times searches, at most."""
MOST_QUICKLY = 24
"""States of a machine that is found quickly."""


class Controls:
    """Tables over the symbols of a tree; `most` bits if they are to explain every label."""

    def __init__(self, tree: PrefixTree, most: float | None = None) -> None:
        self.tree, self.wrong, self.most = tree, WRONG, MOST_MERGED
        if most is not None:
            states = state_bits(MOST_MERGED, tree.symbols, tree.classes)[:2].min(axis=0)
            self.wrong, self.most = WRONG[:1], int(np.searchsorted(states, most, side="right")) - 1
        order = np.argsort(tree.depths, kind="stable")
        self.levels = np.split(order, np.flatnonzero(np.diff(tree.depths[order])) + 1)[1:]
        self.node = np.repeat(np.arange(len(tree)), np.diff(tree.first))
        self.of_misses = miss_bits(int(tree.totals.sum()), tree.classes)

    def shortest(self, effort: int) -> Table:
        """Return the shortest table after `effort` searches near the best; 0 copies no states."""
        tree, tables = self.tree, [np.zeros((1, self.tree.symbols), np.int32)]
        most = min(self.most, MOST_MERGED if effort else MOST_QUICKLY)
        for wrong in self.wrong if most > 1 else ():
            for by_class in (False, True) if effort else (False,):
                found = merge(tree, wrong, most, by_class)
                if found is not None:
                    tables.append(found)
        if effort:
            tables = [self._settle(table) for table in best(tree, tables)]
        else:
            tables = [polish(tree, self._fill(table), split=False) for table in tables]
        return self._kick(min(tables, key=self.bits), effort)

    def bits(self, table: Table) -> float:
        """The bits of a table and of the labels that it contradicts."""
        counts = np.zeros((len(table), self.tree.classes), np.int64)
        np.add.at(counts, (self._states(table)[self.node], self.tree.label), self.tree.weight)
        missed = int(counts.sum() - counts.max(axis=1).sum())
        return table_bits(table, self.tree.classes) + float(self.of_misses[missed])

    def _states(self, table: Table) -> NDArray[np.int32]:
        """The state of every node."""
        states = np.zeros(len(self.tree), np.int32)
        for nodes in self.levels:
            states[nodes] = table[states[self.tree.parent[nodes]], self.tree.token[nodes]]
        return states

    def _settle(self, table: Table) -> Table:
        """The table, polished and filled as long as that makes it shorter."""
        table = self._fill(table)
        while True:
            better = self._fill(polish(self.tree, table))
            if self.bits(better) >= self.bits(table) - 1e-9:
                return table
            table = better

    def _fill(self, table: Table) -> Table:
        """Lead entries that no row takes where most states lead with that symbol."""
        before = self._states(table)[self.tree.parent[1:]]
        taken = np.zeros(table.shape, bool)
        taken[before, self.tree.token[1:]] = True
        table, states = table.copy(), np.arange(len(table))
        last = ((table == states[:, None]) | ~taken).all(axis=1)
        for symbol in range(self.tree.symbols):
            targets = table[taken[:, symbol], symbol]
            if len(targets):
                table[~taken[:, symbol], symbol] = np.bincount(targets).argmax()
        table[last] = states[last, None]
        return table

    def _kick(self, table: Table, effort: int) -> Table:
        lots, least = np.random.default_rng(0), self.bits(table)
        for _ in range(min(effort, KICKED // len(self.tree))):
            states, symbols = table.shape
            other = table[np.append(np.arange(states), lots.integers(states))]  # one state twice
            places = lots.integers(states + 1, size=KICK), lots.integers(symbols, size=KICK)
            other[places] = lots.integers(states + 1, size=KICK)
            other = polish(self.tree, other, split=False)
            other = polish(self.tree, self._fill(other), split=False)
            if self.bits(other) < least - 1e-9:
                table, least = other, self.bits(other)
        return self._settle(table) if effort else table
