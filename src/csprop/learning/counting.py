"""From labelled rows to a machine that counts, if one explains them better than a finite machine does.

With given counters, a machine that counts is a finite machine over pairs of a token and a view of the
counts, and is learned as such: merged and polished, the shortest description decides (`merging.py`,
`polishing.py`). So the search is one over counters, and `increments.py` says which are worth a try.

A finite machine can imitate a counter up to some count, and fails beyond it. So the machines are
fitted to the shorter rows, and must then predict the labels of the longer ones. What counts is the
description of the shorter rows together with the bits of the longer labels that are contradicted. A
machine with counters is chosen if that takes fewer bits, with those of the counters, than the finite
machine takes, and if it is wrong on no more of the longer labels. At last it is fitted to all rows.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.learning.candidates import MOST_MERGED, WRONG, best
from csprop.learning.description import description, miss_bits
from csprop.learning.increments import Counters, bits, node_counts, promising
from csprop.learning.merging import merged
from csprop.learning.polishing import polished
from csprop.learning.tree import PrefixTree, Table

Row = tuple[list[int], list[int]]
"""Tokens and labels, which are aligned at the end."""
SHORTER = 0.8
"""The share of the rows, from the shortest on, that machines are fitted to."""
ROWS = 1000
"""Rows by which counters are chosen; of more, some are drawn."""
NEAR = 32.0
"""Bits more than a finite machine's up to which a machine that was fitted quickly is fitted with care."""
FINALISTS = 2
"""Counters for which this is done."""
MOST_QUICKLY = 24
"""States of a machine that is fitted quickly."""
WINDOWS = (1, 2)
"""How far a control sees the count of a single counter; several are seen by their signs."""


@dataclass(frozen=True)
class Counted:
    """A machine that counts, and why it was chosen."""

    machine: CounterMachine
    bits: float
    """Of the description of all rows with its help."""
    longer: int
    """Labels of rows that are longer than those it was fitted to, at first."""
    misses: int
    """How many of these it contradicted."""
    finite_misses: int
    """How many of the longer labels the finite machine contradicted."""


@dataclass(frozen=True)
class _Fit:
    """A machine that is fitted to the shorter rows; without counters it is a finite one."""

    counters: Counters
    window: int
    machine: CounterMachine
    bits: float
    """Of the shorter rows, of the contradicted longer labels, and of the counters."""
    misses: int
    """Longer labels that are contradicted."""


def counted(rows: Iterable[Row], symbols: int, classes: int, seed: int = 0) -> Counted | None:
    """The machine that counts behind labelled rows, although some labels may be wrong.

    Args:
        rows: tokens and labels of each row; a single label is that of the whole.
        symbols: the number of tokens.
        classes: the number of classes.
        seed: decides which rows of many are looked at first.

    Returns:
        The machine, or None if a finite machine explains the rows as well.
    """
    every = [(list(tokens), list(labels)) for tokens, labels in rows]
    order = np.random.default_rng([seed, 0xC0]).permutation(len(every))
    shorter, longer = _trees([every[place] for place in order[:ROWS]], symbols, classes)
    tried = [
        (counters, window)
        for counters in promising(shorter)
        for window in (WINDOWS if len(counters) == 1 else WINDOWS[:1])
    ]
    if not tried:
        return None
    near = _fitted(shorter, (), 0, longer, quickly=True).bits + NEAR
    quick = (_fitted(shorter, *each, longer, quickly=True) for each in tried)
    best_first = sorted((fit for fit in quick if fit.bits < near), key=lambda fit: fit.bits)
    if not best_first:
        return None
    finite = _fitted(shorter, (), 0, longer)
    fits = [_fitted(shorter, fit.counters, fit.window, longer) for fit in best_first[:FINALISTS]]
    fits = [fit for fit in fits if fit.bits < finite.bits and fit.misses <= finite.misses]
    if not fits:
        return None
    tree = PrefixTree.of(every, symbols, classes)
    whole = [_fitted(tree, fit.counters, fit.window, None) for fit in fits]
    least = min(whole, key=lambda fit: fit.bits)
    if least.bits >= _fitted(tree, (), 0, None).bits:
        return None
    tested = fits[whole.index(least)]
    return Counted(least.machine, least.bits, int(longer.totals.sum()), tested.misses, finite.misses)


def _trees(rows: list[Row], symbols: int, classes: int) -> tuple[PrefixTree, PrefixTree]:
    """The shorter rows to fit machines to, and the longer ones."""
    shorter, longer = by_length(rows)
    return PrefixTree.of(shorter, symbols, classes), PrefixTree.of(longer, symbols, classes)


def by_length(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """The shorter rows, and the longer ones.

    If all rows are about equally long and have a label at every step, they are cut: the labels of the
    last fifth are those to predict. If they have one label each, every fifth row is held out instead.
    """
    lengths = np.array([len(tokens) for tokens, _ in rows])
    cut = int(np.quantile(lengths, SHORTER, method="lower"))
    if (lengths > cut).any():
        return [row for row in rows if len(row[0]) <= cut], [row for row in rows if len(row[0]) > cut]
    cut = int(SHORTER * cut)
    shorter, longer = [], []
    for tokens, labels in rows:
        unlabelled = len(tokens) - len(labels)
        if unlabelled < cut < len(tokens):
            shorter.append((tokens[:cut], labels[: cut - unlabelled]))
            longer.append((tokens, labels[cut - unlabelled :]))
        else:
            shorter.append((tokens, labels))
    if not longer:
        longer, shorter = shorter[::5], [row for place, row in enumerate(shorter) if place % 5]
    return shorter, longer


def _fitted(
    tree: PrefixTree,
    counters: Counters,
    window: int,
    longer: PrefixTree | None,
    quickly: bool = False,
) -> _Fit:
    """The machine with given counters that describes a tree shortest."""
    seen = extended(tree, counters, window)
    used, number = np.unique(seen.token[1:], return_inverse=True)
    compact = replace(seen, symbols=len(used), token=np.append(0, number).astype(np.int32))
    table = _quick_table(compact) if quickly else _table(compact)
    whole = _expanded(table, used, tree.symbols, counters, window)
    control = seen.machine(whole)
    total, misses = description(compact, table) + bits(counters), 0
    if longer is not None:
        misses = _contradicted(extended(longer, counters, window), control)
        total += float(miss_bits(int(longer.totals.sum()), tree.classes)[misses])
    increments = tuple(zip(*counters, strict=True)) if counters else ((),) * tree.symbols
    machine = CounterMachine(increments=increments, window=window, control=control)
    return _Fit(counters, window, machine, total, misses)


def extended(tree: PrefixTree, counters: Counters, window: int) -> PrefixTree:
    """The same tree, each token together with the view of the counts after it."""
    views = (2 * window + 1) ** len(counters)
    seen = np.zeros(len(tree), np.int64)
    if counters:
        counts = np.array(counters) @ np.array(list(node_counts(tree)))  # (counters, nodes)
        for count in np.clip(counts, -window, window) + window:
            seen = seen * (2 * window + 1) + count
    return replace(
        tree, symbols=tree.symbols * views, token=(tree.token * views + seen).astype(np.int32)
    )


def _table(tree: PrefixTree) -> Table:
    """The table of the shortest description that merging and polishing lead to."""
    tables = [
        merged(tree, wrong, MOST_MERGED, by_class) for wrong in WRONG for by_class in (False, True)
    ]
    found = best(tree, [table for table in tables if table is not None])
    found = found or [np.zeros((1, tree.symbols), np.int32)]
    return min((_settled(tree, table) for table in found), key=lambda each: description(tree, each))


def _quick_table(tree: PrefixTree) -> Table:
    """The same without copies of states, and from fewer ways to merge."""
    tables = [merged(tree, wrong, MOST_QUICKLY, by_class=False) for wrong in WRONG]
    found = [polished(tree, _filled(tree, table), split=False) for table in tables if table is not None]
    found.append(np.zeros((1, tree.symbols), np.int32))
    return min(found, key=lambda table: description(tree, table))


def _settled(tree: PrefixTree, table: Table) -> Table:
    """The table, polished further from where entries that no row takes follow the others."""
    table = _filled(tree, table)
    while True:
        better = _filled(tree, polished(tree, table))
        if description(tree, better) >= description(tree, table):
            return table
        table = better


def _filled(tree: PrefixTree, table: Table) -> Table:
    """The table with every entry that no row takes leading where most states lead with that symbol."""
    here, taken = [0] * len(tree), np.zeros(table.shape, bool)
    following = table.tolist()
    for node, (up, token) in enumerate(zip(tree.parent.tolist(), tree.token.tolist(), strict=True)):
        if node:
            taken[here[up], token] = True
            here[node] = following[here[up]][token]
    table = table.copy()
    for symbol in range(tree.symbols):
        targets = table[taken[:, symbol], symbol]
        if len(targets):
            table[~taken[:, symbol], symbol] = np.bincount(targets).argmax()
    return table


def _expanded(table: Table, used: Table, tokens: int, counters: Counters, window: int) -> Table:
    """The table with a column for every symbol; one that no row has is like the nearest of its token."""
    views = np.array([*product(range(-window, window + 1), repeat=len(counters))])
    whole = np.tile(np.arange(len(table), dtype=np.int32)[:, None], (1, tokens * len(views)))
    for token in range(tokens):
        columns = np.flatnonzero(used // len(views) == token)
        if len(columns):
            far = np.abs(views[:, None] - views[used[columns] % len(views)]).sum(axis=2)
            whole[:, token * len(views) + np.arange(len(views))] = table[:, columns[far.argmin(axis=1)]]
    return whole


def _contradicted(tree: PrefixTree, machine: Machine) -> int:
    """The number of labels that a machine contradicts."""
    counts = tree.counts(np.array(machine.transitions, np.int32))
    answers = [0 if each is None else each for each in machine.outputs]
    return int(counts.sum() - counts[np.arange(len(counts)), answers].sum())
