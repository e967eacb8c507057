"""How many bits it takes to write labels down, with a machine and without one.

Everybody knows the sequences; what is written down is their labels. A machine explains them but for
some, so it takes the bits of the machine, and the bits that say which labels it contradicts. With k
states, V tokens and C classes, a machine takes 1 bit to say which of two ways its table is written in,
k log2 C bits for the answers, and for the table the fewer of

    all entries one by one                   k V log2 max(2, k)
    for every state a target of its own      log2 k + log2 V + log2 (V choose x) + x log2 (k − 1)
      that all but x of its entries lead to

so that a state that ignores most of a large vocabulary is cheap. That e of n labels are contradicted
takes one bit if e = 0, and otherwise 1 + log2(n + 1) + log2 (n choose e) + e log2(C − 1).

A larger machine is worth its states only if it explains enough labels more. This is the principle of
minimum description length (Rissanen 1978).
"""

import math

import numpy as np
from numpy.typing import NDArray

from csprop.learning.tree import PrefixTree, Table

Reals = NDArray[np.floating]


def _choices(many: int) -> Reals:
    """log2 (many choose few), by `few` from 0 to `many`."""
    few = np.arange(many + 1)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log2(np.arange(1.0, many + 1)))])
    return log_factorial[many] - log_factorial[few] - log_factorial[many - few]


def miss_bits(labels: int, classes: int) -> Reals:
    """The bits that say which of `labels` labels are contradicted, by their number."""
    each = math.log2(max(1, classes - 1))
    bits = 1 + math.log2(labels + 1) + _choices(labels) + np.arange(labels + 1) * each
    bits[0] = 1
    return bits


def state_bits(most: int, symbols: int, classes: int) -> Reals:
    """The parts of a machine's bits that its number of states decides, (3, most + 1).

    They are the bits of all entries and answers one by one; of the answers and the targets that states
    have of their own; and of each entry that leads elsewhere.
    """
    states = np.arange(most + 1)
    own = np.log2(np.maximum(1, states)) + math.log2(symbols)
    answers = 1 + states * math.log2(classes)
    entries = states * symbols * np.log2(np.maximum(2, states))
    return np.array([answers + entries, answers + states * own, np.log2(np.maximum(1, states - 1))])


def row_bits(symbols: int) -> Reals:
    """The bits that say which entries of a state lead elsewhere than to its own target, by number."""
    return _choices(symbols)[:symbols]


def exceptions(table: Table) -> NDArray[np.int64]:
    """How many entries of each state do not lead to the target that most of them lead to, (states,)."""
    most = [np.bincount(row).max() for row in table]
    return table.shape[1] - np.array(most, np.int64)


def table_bits(table: Table, classes: int) -> float:
    """The bits of a machine with this table."""
    states, symbols = table.shape
    listed, own, each = state_bits(states, symbols, classes)[:, states]
    elsewhere = exceptions(table)
    return float(min(listed, own + row_bits(symbols)[elsewhere].sum() + elsewhere.sum() * each))


def description(tree: PrefixTree, table: Table) -> float:
    """The bits of a machine and of the labels that it contradicts."""
    missed = miss_bits(int(tree.totals.sum()), tree.classes)[tree.misses(table)]
    return table_bits(table, tree.classes) + float(missed)


def alone(tree: PrefixTree) -> float:
    """The fewest bits of the labels without a machine.

    Copies of a sequence tend to have the same label, and a sequence that begins with another one may
    share its label, for reasons that no machine knows. So a label is expected of every distinct
    sequence: the commonest class, or the label of the longest labelled sequence that it begins with.
    Sequences with a label of their own are written down first, and then the single labels that differ.
    """
    counts = np.zeros((len(tree), tree.classes), np.int64)
    counts[np.repeat(np.arange(len(tree)), np.diff(tree.first)), tree.label] = tree.weight
    labelled = counts.any(axis=1)
    of_sequences = miss_bits(int(labelled.sum()), tree.classes)
    of_labels = miss_bits(int(tree.totals.sum()), tree.classes)

    missed = int(tree.totals.sum() - tree.totals.max())
    saved = counts[labelled].max(axis=1) - counts[labelled][:, tree.totals.argmax()]
    fewer = np.concatenate([[0], np.cumsum(np.sort(saved[saved > 0])[::-1])])
    by_class = (of_sequences[: len(fewer)] + of_labels[missed - fewer]).min()

    expected = [int(tree.totals.argmax())] * len(tree)
    changes = 0
    for node, up in enumerate(tree.parent.tolist()):
        before = expected[up]
        most = counts[node].max()
        expected[node] = before if counts[node, before] == most else int(counts[node].argmax())
        changes += expected[node] != before
    by_prefix = of_sequences[changes] + of_labels[(counts.sum(axis=1) - counts.max(axis=1)).sum()]
    return float(min(by_class, by_prefix))
