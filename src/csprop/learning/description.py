"""The number of bits that it takes to write labels down, with a machine and without one.

The sequences are known; only their labels are written down. A machine explains all labels except
some, so they take the bits of the machine, and the bits that say which labels it contradicts. With k
states, V tokens and C classes, a machine takes 1 bit to say which of two ways its table is written in,
k log2 C bits for the answers, and for the table the fewer of

    all entries one by one                   k V log2 max(2, k)
    for every state a target of its own      log2 k + log2 V + log2 (V choose x) + x log2 max(1, k − 1)
      that all but x of its entries lead to

so a state that ignores most of a large vocabulary is cheap. That e of n labels are contradicted
takes one bit if e = 0, and otherwise 1 + log2(n + 1) + log2 (n choose e) + e log2(C − 1).

A larger machine is worth its states only if it explains enough more labels. This is the principle of
minimum description length (Rissanen 1978). The number of states is not written: of the (k − 1)! orders
of the states after the start one is used, which pays for it but for log2 e bits.

The search for a machine counts these bits. Whether a machine is better than none is decided
more exactly: where classes are not equally common, misses would seem more expensive than they are. So
the classes of the labels that are contradicted take the fewer bits of e log2(C − 1) and of a code by
their numbers.
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
    """Return the parts of a machine's bits that its number of states decides, (3, most + 1).

    All entries and answers one by one; answers and targets; each entry that leads elsewhere.
    """
    states = np.arange(most + 1)
    own = np.log2(np.maximum(1, states)) + math.log2(symbols)
    answers = 1 + states * math.log2(classes)
    entries = states * symbols * np.log2(np.maximum(2, states))
    return np.array([answers + entries, answers + states * own, np.log2(np.maximum(1, states - 1))])


def row_bits(symbols: int) -> Reals:
    """Return the bits that say which entries of a state do not lead to its own target, by number."""
    return _choices(symbols)[:symbols]


def table_bits(table: Table, classes: int, by_target: bool = False) -> float:
    """The bits of a machine with this table; with `by_target`, in the second way only."""
    states, symbols = table.shape
    listed, own, each = state_bits(states, symbols, classes)[:, states]
    elsewhere = symbols - np.array([np.bincount(row).max() for row in table])
    second = own + row_bits(symbols)[elsewhere].sum() + elsewhere.sum() * each
    return float(second if by_target else min(listed, second))


def description(tree: PrefixTree, table: Table) -> float:
    """The bits of a machine and of the labels that it contradicts, as the search counts them."""
    missed = miss_bits(int(tree.totals.sum()), tree.classes)[tree.misses(table)]
    return table_bits(table, tree.classes) + float(missed)


def unlike_bits(many: int, unlike: NDArray[np.int64]) -> float:
    """Return the bits that say which of `many` labels are not the expected ones, and their classes.

    `unlike` is the number of these labels by class, (classes,).
    """
    few, classes = int(unlike.sum()), len(unlike)
    if not few:
        return 1.0
    bits = 1 + math.log2(many + 1) + _log_choose(many, few)
    if classes == 2:
        return bits
    rest = few - np.cumsum(unlike) + unlike
    by_number = sum(map(_log_choose, rest.tolist(), unlike.tolist()))
    by_number += _log_choose(few + classes - 1, classes - 1)
    return bits + 1 + min(few * math.log2(max(1, classes - 1)), by_number)


def _log_choose(many: int, few: int) -> float:
    """log2 (many choose few)."""
    logs = math.lgamma(many + 1) - math.lgamma(few + 1) - math.lgamma(many - few + 1)
    return logs / math.log(2)


def with_machine(tree: PrefixTree, table: Table) -> float:
    """The bits of a machine and of the labels that it contradicts."""
    counts = tree.counts(table)
    return table_bits(table, tree.classes) + _singles(counts, counts.argmax(axis=1))


def alone(tree: PrefixTree) -> float:
    """The bits of the labels without a machine: the fewer of two ways.

    Copies of a sequence tend to have the same label, and a sequence that begins with another one may
    share its label, for reasons that no machine knows. So a label is expected of every distinct
    sequence: the commonest class, or the label of the longest labelled sequence that it begins with.
    Sequences with another label are written down first, and then the single labels that differ from
    the one of their sequence.
    """
    counts = np.zeros((len(tree), tree.classes), np.int64)
    counts[np.repeat(np.arange(len(tree)), np.diff(tree.first)), tree.label] = tree.weight
    return min(_by_class(tree, counts), _by_prefix(tree, counts))


def _by_class(tree: PrefixTree, counts: NDArray[np.int64]) -> float:
    """The bits if the commonest class is expected."""
    sequences = counts[counts.any(axis=1)]
    commonest, own = int(tree.totals.argmax()), sequences.argmax(axis=1)
    saved = sequences.max(axis=1) - sequences[:, commonest]
    order = np.argsort(-saved, kind="stable")[: int((saved > 0).sum())]
    fewer = np.concatenate([[0], np.cumsum(saved[order])])
    missed = int(tree.totals.sum() - tree.totals.max())
    of_sequences = miss_bits(len(sequences), tree.classes)[: len(fewer)]
    of_labels = miss_bits(int(tree.totals.sum()), tree.classes)[missed - fewer]
    best = int((of_sequences + of_labels).argmin())

    def bits(listed: int) -> float:
        """With so many sequences written down."""
        expected = np.full(len(sequences), commonest)
        expected[order[:listed]] = own[order[:listed]]
        unlike = np.bincount(expected[order[:listed]], minlength=tree.classes)
        return unlike_bits(len(sequences), unlike) + _singles(sequences, expected)

    return min(map(bits, {0, best, len(order)}))


def _by_prefix(tree: PrefixTree, counts: NDArray[np.int64]) -> float:
    """The bits if the label of the longest labelled sequence before is expected."""
    most, own = counts.max(axis=1).tolist(), counts.argmax(axis=1).tolist()
    expected = [int(tree.totals.argmax())] * len(tree)
    unlike = [0] * tree.classes
    for node, up in enumerate(tree.parent.tolist()):
        before = expected[node] = expected[up]
        if most[node] and counts[node, before] < most[node]:
            expected[node] = own[node]
            unlike[own[node]] += 1
    labelled = int(counts.any(axis=1).sum())
    return unlike_bits(labelled, np.array(unlike)) + _singles(counts, np.array(expected))


def _singles(counts: NDArray[np.int64], expected: NDArray[np.int64]) -> float:
    """The bits of the labels that differ from what is expected of their sequences or states."""
    missed = counts.copy()
    missed[np.arange(len(counts)), expected] = 0
    return unlike_bits(int(counts.sum()), missed.sum(axis=0))
