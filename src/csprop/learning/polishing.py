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
            while self._redirected_some():
                pass
            if not (self._merged_some() or (split and self._split_some())):
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

    def _tried(self, entries: list[tuple[int, int]], target: int, without: int | None = None) -> float:
        """The bits if these entries led to `target`, and the table went without a state."""
        table = self.table.copy()
        for entry in entries:
            table[entry] = target
        kept = table if without is None else np.delete(table, without, axis=0)
        of_table = table_bits(kept, self.tree.classes, self.by_target)
        return self.of_misses[self.tree.misses(table)] + of_table

    def _least(self, entries: list[tuple[int, int]], gone: int | None, others: list[int]) -> int | None:
        """The target to which these entries are led at the fewest bits, if they are fewer than now."""
        best, least = None, self._bits - SLACK
        for target in others:
            bits = self._tried(entries, target, gone)
            if bits < least:
                best, least = target, bits - SLACK
        return best

    def _entries(self) -> list[tuple[int, int]]:
        return [
            (state, token) for state in range(len(self.table)) for token in range(self.tree.symbols)
        ]

    def _redirected(self, entry: tuple[int, int]) -> bool:
        if entry not in self.entered:
            return False
        others = [state for state in range(len(self.table)) if state != self.table[entry]]
        best = self._least([entry], None, others)
        if best is None:
            return False
        self.table[entry] = best
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
            best = self._least(entries, state, others)
            if best is not None:
                for entry in entries:
                    self.table[entry] = best
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
        """Return True if the state that an entry leads to is entered in another way too."""
        target = self.table[entry]
        others = (other for other in self.entered if other != entry)
        return target == 0 or any(self.table[other] == target for other in others)
