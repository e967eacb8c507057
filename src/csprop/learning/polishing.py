"""A local search on the table of a machine, for the shortest description of the labelled rows.

Three kinds of moves are tried until none makes the description shorter: an entry of the table leads to
another state; all entries that lead to one state lead to another one; an entry leads to a copy of its
state, whose own entries are then free to lead elsewhere.
"""

import numpy as np

from csprop.learning.description import miss_bits, row_bits, state_bits, table_bits
from csprop.learning.tree import PrefixTree, Table
from csprop.nn.compile import MOST_PLACES
from csprop.ops import backends
from csprop.ops.native.search import polish_table

MOST_STATES = MOST_PLACES
"""A larger machine could not be compiled."""
SLACK = 1e-9
WORK = 30_000_000
"""Nodes that a search may walk: at most a few seconds of the compiled one."""


def polish(
    tree: PrefixTree,
    table: Table,
    split: bool = True,
    work: int = WORK,
    by_target: bool = False,
) -> Table:
    """The table after the search, its states numbered as the rows meet them; unused ones are dropped.

    Args:
        tree: the labelled rows.
        table: the start of the search.
        split: try copies of states, the most expensive kind of move.
        work: the number of nodes of the tree that may be walked before the search ends.
        by_target: always write the table by the targets of its states; every entry that leads to the
            target then saves bits.
    """
    if backends.backend() == "native":
        of_states = state_bits(max(MOST_STATES, len(table)), tree.symbols, tree.classes)
        if by_target:
            of_states[0] = np.inf
        of_misses = miss_bits(int(tree.totals.sum()), tree.classes)
        bits = (of_misses, of_states, row_bits(tree.symbols))
        begin = np.ascontiguousarray(table, np.int32)
        return polish_table(tree.columns, tree.classes, begin, *bits, split, work)
    return _Polishing(tree, table, by_target).run(split)


class _Polishing:
    """The specification, which `polishing.hpp` follows move by move; it counts every row for each."""

    def __init__(self, tree: PrefixTree, table: Table, by_target: bool) -> None:
        self.tree, self.table, self.by_target = tree, table.copy(), by_target
        self.of_misses = miss_bits(int(tree.totals.sum()), tree.classes)
        self._settle()

    def run(self, split: bool) -> Table:
        while True:
            while self._redirect_some():
                pass
            if not (self._merge_some() or (split and self._split_some())):
                return self.table

    @property
    def _bits(self) -> float:
        return self.of_misses[self.misses] + table_bits(self.table, self.tree.classes, self.by_target)

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

    def _lead(self, entries: list[tuple[int, int]], now: int, drop: bool = False) -> bool:
        """Lead entries from one target to the one at the fewest bits, if these are fewer than now.

        With `drop`, the table then goes without the state that they led to.
        """
        best, least, places = None, self._bits - SLACK, tuple(zip(*entries, strict=True))
        for target in range(len(self.table)):
            if target == now:
                continue
            table = self.table.copy()
            table[places] = target
            rest = np.delete(table, now, axis=0) if drop else table
            bits = table_bits(rest, self.tree.classes, self.by_target)
            bits = self.of_misses[self.tree.misses(table)] + bits
            if bits < least:
                best, least = target, bits - SLACK
        if best is None:
            return False
        self.table[places] = best
        self._settle()
        return True

    def _redirect(self, entry: tuple[int, int]) -> bool:
        return entry in self.entered and self._lead([entry], int(self.table[entry]))

    def _redirect_some(self) -> bool:
        changed, number = False, 0
        while number < self.table.size:  # a state may be dropped on the way
            changed |= self._redirect(divmod(number, self.tree.symbols))
            number += 1
        return changed

    def _merge_some(self) -> bool:
        changed = False
        for state in range(len(self.table) - 1, 0, -1):
            if state < len(self.table):
                entries = np.argwhere(self.table == state).tolist()
                changed |= self._lead([(row, token) for row, token in entries], state, drop=True)
        return changed

    def _split_some(self) -> bool:
        for entry in np.ndindex(*self.table.shape) if self.misses else ():
            if entry not in self.entered or not self._shared(entry):
                continue
            before, table, count = self._bits, self.table, len(self.table)
            above = np.array(self.where)[self.tree.parent[1:]]
            met = 1 + ((above == entry[0]) & (self.tree.token[1:] == entry[1])).argmax()
            self.table = np.concatenate([table, table[table[entry]][None]])
            self.table[entry] = count
            self._settle()
            for token in range(self.tree.symbols):
                self._redirect((self.where[met], token))
            if self._bits < before - SLACK:
                return True
            self.table = table
            self._settle()
        return False

    def _shared(self, entry: tuple[int, int]) -> bool:
        """Return True if the state that an entry leads to is entered in another way too."""
        target, others = self.table[entry], self.entered - {entry}
        return target == 0 or any(self.table[other] == target for other in others)
