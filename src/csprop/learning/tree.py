"""Labelled rows as a prefix tree: every common prefix is one node.

Nodes are in preorder: a parent stands before its children, and a subtree's nodes follow each other.

parent, token     of each node; the root is node 0, its own parent           (N,)
end               one past the last node of its subtree                      (N,)
first             where its labels begin                                     (N + 1,)
label, weight     the different labels of each node, and how often each      (labels,)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from csprop.automata.machine import Machine

Ints = NDArray[np.int32]
Rows = Iterable[tuple[Sequence[int], Sequence[int]]]
"""Tokens and labels of each row. Labels are aligned at the end: a single label is for the whole row."""
Table = NDArray[np.int32]
"""The transitions of a machine, (states, symbols); its start is state 0."""


@dataclass(frozen=True)
class PrefixTree:
    """Rows of tokens below `symbols`, with labels below `classes`."""

    symbols: int
    classes: int
    parent: Ints
    token: Ints
    end: Ints
    first: Ints
    label: Ints
    weight: Ints

    @classmethod
    def of(cls, rows: Rows, symbols: int, classes: int) -> "PrefixTree":
        """The tree of some rows."""
        parent, token, counts = [0], [0], [{}]
        path, before = [0], ()
        for tokens, labels in sorted((tuple(tokens), tuple(labels)) for tokens, labels in rows):
            both = enumerate(zip(before, tokens, strict=False))
            differ = (place for place, (one, other) in both if one != other)
            common = next(differ, min(len(before), len(tokens)))
            del path[common + 1 :]
            for each in tokens[common:]:
                parent.append(path[-1])
                token.append(each)
                counts.append({})
                path.append(len(parent) - 1)
            for node, label in zip(path[len(path) - len(labels) :], labels, strict=True):
                counts[node][label] = counts[node].get(label, 0) + 1
            before = tokens
        end = list(range(1, len(parent) + 1))
        for node in range(len(parent) - 1, 0, -1):
            end[parent[node]] = max(end[parent[node]], end[node])
        columns = (
            parent,
            token,
            end,
            np.cumsum([0, *map(len, counts)]),
            [label for each in counts for label in sorted(each)],
            [each[label] for each in counts for label in sorted(each)],
        )
        return cls(symbols, classes, *(np.array(column, np.int32) for column in columns))

    def __len__(self) -> int:
        """The number of nodes."""
        return len(self.parent)

    @property
    def columns(self) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
        """All arrays."""
        return self.parent, self.token, self.end, self.first, self.label, self.weight

    @cached_property
    def totals(self) -> NDArray[np.int64]:
        """The number of labels of each class, (classes,)."""
        return np.bincount(self.label, self.weight, self.classes).astype(np.int64)

    @cached_property
    def depths(self) -> NDArray[np.int64]:
        """The number of tokens that lead to each node, (N,)."""
        depths = [0] * len(self)
        for node, up in enumerate(self.parent.tolist()):
            depths[node] = depths[up] + 1 if node else 0
        return np.array(depths)

    def states(self, table: Table) -> list[int]:
        """Return the state of each node in a machine with this table."""
        following, states = table.tolist(), [0] * len(self)
        steps = zip(self.parent.tolist(), self.token.tolist(), strict=True)
        for node, (up, token) in islice(enumerate(steps), 1, None):
            states[node] = following[states[up]][token]
        return states

    def counts(self, table: Table) -> NDArray[np.int64]:
        """Return the number of labels of each class in each state of a table, (states, classes)."""
        counts = np.zeros((len(table), self.classes), np.int64)
        place = np.repeat(self.states(table), np.diff(self.first)), self.label
        np.add.at(counts, place, self.weight)
        return counts

    def misses(self, table: Table) -> int:
        """Return the number of labels that differ from the commonest label of their state."""
        counts = self.counts(table)
        return int((counts.sum(axis=1) - counts.max(axis=1)).sum())

    def machine(self, table: Table) -> Machine:
        """The minimal machine of a table, in which each state answers with its commonest label.

        A state that no label reaches answers with the commonest class of all.
        """
        counts = self.counts(table)
        answers = np.where(counts.any(axis=1), counts.argmax(axis=1), self.totals.argmax())
        transitions = tuple(map(tuple, table.tolist()))
        return Machine(transitions=transitions, outputs=tuple(answers.tolist())).minimal()
