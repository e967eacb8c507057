"""From labelled rows to a machine that counts, if one explains them better than a finite machine does.

With given counters, a machine that counts is a finite machine over pairs of a token and a view of the
counts, and is learned like one: merged, polished, and chosen by its description (`controls.py`).
So the search is one over counters, and `increments.py` says which are worth a try.

A finite machine can imitate a counter up to some count, and fails beyond it. So the machines are
fitted to the shorter rows, and must then predict the labels of the longer ones. What counts is the
description of the shorter rows together with the bits of the longer labels that are contradicted. A
machine with counters is chosen if that takes fewer bits, including the bits of the counters, than the
finite machine takes, and if it is wrong on no more of the longer labels. It is then fitted to all rows.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.learning.controls import Controls
from csprop.learning.description import miss_bits, state_bits
from csprop.learning.increments import Counters, bits, node_counts, propose_counters
from csprop.learning.tree import PrefixTree, Table

Row = tuple[list[int], list[int]]
"""Tokens and labels, which are aligned at the end."""
Seen = tuple[Counters, int]
"""Counters, and how far the control sees them."""
SHORTER = 0.8
"""The share of the sequences, from the shortest on, that machines are fitted to."""
ROWS = 1000
"""Rows by which it is decided whether to count; of more, some are drawn."""
QUICK, CAREFUL, THOROUGH = 0, 10, 100
"""Levels of effort in the search for a control (`Controls.shortest`)."""
STAY = {QUICK: (6, 32.0), CAREFUL: (3, 8.0), THOROUGH: (1, 0.0)}
"""Counters that stay after such a search, and the bits by which they may exceed the finite machine."""
WINDOWS = (1, 2)
"""Windows in which a control sees the count of a single counter; of several it sees the signs."""
MOST_TOKENS = 40
"""With more there are too many counters to try."""
WIDER = 7.0
"""Bits that a wider window must save: with more views a table can fit a few rows by chance."""


class Counted(NamedTuple):
    """A machine that counts, and why it was chosen."""

    machine: CounterMachine
    longer: int
    """Labels of rows that are longer than those the machines were fitted to, at first."""
    misses: int
    """Number of these that it contradicted."""
    finite_misses: int
    """Number of these that a finite machine contradicted."""


class _Fit(NamedTuple):
    """A machine that is fitted to some rows; without counters it is a finite one."""

    seen: Seen
    machine: CounterMachine
    bits: float  # of these rows, of the longer labels that are contradicted, and of the counters
    misses: int  # longer labels that are contradicted


def find_counting_machine(
    rows: Iterable[Row],
    symbols: int,
    classes: int,
    seed: int = 0,
    most: float | None = None,
) -> Counted | None:
    """Return the machine with counters behind labelled rows; None if a finite one explains them too.

    Args:
        rows: tokens and labels of each row; a single label is for the whole row.
        symbols: the number of tokens.
        classes: the number of classes.
        seed: decides which rows of many are looked at first.
        most: if a finite machine explains every label, the bits beyond which one that counts is of no
            use; it must explain every label, too.
    """
    # The simplest machine that counts has two states, and a counter that two tokens change.
    simplest = bits(((1, -1, *(0,) * (symbols - 2)),))
    simplest += float(state_bits(2, symbols + 1, classes)[:2, 2].min())
    if symbols > MOST_TOKENS or (most is not None and most < simplest):
        return None
    every = [(list(tokens), list(labels)) for tokens, labels in rows]
    if len(every) < 2:
        return None
    order = np.random.default_rng([seed, 0xC0]).permutation(len(every))
    trial = _Trial([every[place] for place in order[:ROWS]], symbols, classes, most)
    chosen = trial.search(trial.propose())
    if chosen is None or chosen.misses > trial.finite(CAREFUL).misses:
        return None
    seen = chosen.seen
    if len(every) > ROWS:  # more rows may ask for other counters
        whole = _Trial(every, symbols, classes, most)
        better = whole.search(list(dict.fromkeys([seen, *whole.propose()])))
        seen = seen if better is None else better.seen
    machine = _fit(PrefixTree.of(every, symbols, classes), None, seen, THOROUGH, most).machine.reduce()
    if not machine.counters:
        return None
    longer, finite_misses = int(trial.longer.totals.sum()), trial.finite(CAREFUL).misses
    return Counted(machine, longer, chosen.misses, finite_misses)


class _Trial:
    """Machines that are fitted to the shorter rows of some, and tested on the longer ones."""

    def __init__(self, rows: list[Row], symbols: int, classes: int, most: float | None) -> None:
        self.most = most
        shorter, longer = by_length(rows)
        self.shorter = PrefixTree.of(shorter, symbols, classes)
        self.longer = PrefixTree.of(longer, symbols, classes)
        self._finite: dict[int, _Fit] = {}

    def finite(self, effort: int) -> _Fit:
        """The machine without counters."""
        if effort not in self._finite:
            most = None if self.most is None else math.inf
            self._finite[effort] = _fit(self.shorter, self.longer, ((), 0), effort, most)
        return self._finite[effort]

    def propose(self) -> list[Seen]:
        """Return counters to try, and windows in which to see them."""
        return [
            (counters, window)
            for counters in propose_counters(self.shorter)
            for window in (WINDOWS if len(counters) == 1 else WINDOWS[:1])
        ]

    def search(self, tried: list[Seen]) -> _Fit | None:
        """The machine with the fewest bits; None if a finite machine has as few."""
        fits: list[_Fit] = []
        for effort, (stay, near) in STAY.items():
            if not tried:
                return None
            fits = [_fit(self.shorter, self.longer, seen, effort, self.most) for seen in tried]
            most = self.finite(min(effort, CAREFUL)).bits + near
            most = most if self.most is None else min(most, self.most)
            fits = sorted((fit for fit in fits if fit.bits < most), key=lambda fit: fit.bits)
            tried = [fit.seen for fit in fits[:stay]]
        return fits[0] if fits else None


def by_length(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """The shorter rows, and the longer ones; copies of a sequence do not count for the share.

    If all rows are about equally long and have a label at every step, they are cut: the labels of the
    last fifth are those to predict. If they have one label each, every fifth row is held out instead.
    """
    lengths = np.array([len(tokens) for tokens in {tuple(tokens) for tokens, _ in rows}])
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


def _fit(
    tree: PrefixTree, longer: PrefixTree | None, seen: Seen, effort: int, most: float | None = None
) -> _Fit:
    """The machine with given counters that describes a tree shortest."""
    counters, window = seen
    pairs = extend_tree(tree, counters, window)
    few, used = _used(pairs)
    price = bits(counters) + WIDER * max(0, window - 1)
    controls = Controls(few, None if most is None else most - price)
    table = controls.shortest(effort)
    control = pairs.machine(_expand(table, used, tree.symbols, counters, window))
    total, misses = controls.bits(table) + price, 0
    increments = tuple(zip(*counters, strict=True)) if counters else ((),) * tree.symbols
    machine = CounterMachine(increments=increments, window=window, control=control)
    if longer is not None:
        misses = count_contradicted(longer, machine)
        total += float(miss_bits(int(longer.totals.sum()), tree.classes)[misses])
    return _Fit(seen, machine, total, misses)


def refit(tree: PrefixTree, machine: CounterMachine) -> CounterMachine:
    """A machine with the same counters that is fitted to other rows."""
    return _fit(tree, None, seen_by(machine), THOROUGH).machine.reduce()


def as_seen(tree: PrefixTree, machine: Machine | CounterMachine) -> tuple[PrefixTree, Table, float]:
    """The rows as the control of a machine reads them, its table, and the bits of the counters.

    The symbols are those that occur; a finite machine is its own control.
    """
    if isinstance(machine, Machine):
        return tree, np.array(machine.transitions, np.int32), 0.0
    few, used = _used(extend_tree(tree, *seen_by(machine)))
    table = np.array(machine.control.transitions, np.int32)[:, used]
    return few, table, bits(seen_by(machine)[0]) + WIDER * max(0, machine.window - 1)


def seen_by(machine: CounterMachine) -> Seen:
    """The counters of a machine, and how far its control sees them."""
    return tuple(zip(*machine.increments, strict=True)), machine.window


def extend_tree(tree: PrefixTree, counters: Counters, window: int) -> PrefixTree:
    """Return the same tree, each token together with the view of the counts after it."""
    size, symbols, token = 2 * window + 1, tree.symbols, tree.token.astype(np.int64)
    if counters:
        counts = np.array(counters) @ node_counts(tree)  # (counters, nodes)
        for count in np.clip(counts, -window, window) + window:
            symbols, token = symbols * size, token * size + count
    return replace(tree, symbols=symbols, token=token.astype(np.int32))


def _used(pairs: PrefixTree) -> tuple[PrefixTree, Table]:
    """Return the same tree with only the symbols that occur, and these symbols."""
    used, number = np.unique(pairs.token[1:], return_inverse=True)
    token = np.append(0, number).astype(np.int32)
    return replace(pairs, symbols=len(used), token=token), used


def _expand(table: Table, used: Table, tokens: int, counters: Counters, window: int) -> Table:
    """The table with a column for every symbol; what no row has is like the nearest of its token."""
    views = np.array([*product(range(-window, window + 1), repeat=len(counters))])
    whole = np.tile(np.arange(len(table), dtype=np.int32)[:, None], (1, tokens * len(views)))
    for token in range(tokens):
        columns = np.flatnonzero(used // len(views) == token)
        if len(columns):
            far = np.abs(views[:, None] - views[used[columns] % len(views)]).sum(axis=2)
            whole[:, token * len(views) + np.arange(len(views))] = table[:, columns[far.argmin(axis=1)]]
    return whole


def count_contradicted(tree: PrefixTree, machine: Machine | CounterMachine) -> int:
    """The number of labels that a machine contradicts."""
    rows, table, _ = as_seen(tree, machine)
    counts = rows.counts(table)
    answers = [0 if each is None else each for each in machine.control.outputs]
    return int(counts.sum() - counts[np.arange(len(counts)), answers].sum())
