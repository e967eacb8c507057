"""The search for the best machine behind labelled rows.

Each candidate is fitted to the training rows alone. The held-out rows come first in the choice: a
candidate that is clearly worse on them than the best one is out. Among the others the shortest
description of all rows decides (`description.py`), which weighs the contradicted labels against the
states. A machine that counts must describe them shorter than every finite one by `CLEAR` bits. The
search ends early where a candidate is plainly right: it contradicts no row, or another kind of
candidate has found the same machine. In the end a machine is fitted to all rows, starting from the
chosen one and from scratch.

A machine must be better than none by a clear margin: it must describe the rows shorter by `CLEAR` bits
than the better of two ways that know no machine (`description.alone`). A code that is fixed beforehand
is shorter by b bits than the right one at most once in 2^b times, and these two are close to the right
one for labels that are independent, copied, or carried along a row.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.automata.reduction import views_met
from csprop.data.examples import UNLABELLED, Examples
from csprop.data.packing import Rows
from csprop.learning.candidates import best, is_plainly_right, list_methods, merging
from csprop.learning.counting import (
    Counted,
    Row,
    as_seen,
    count_contradicted,
    extend_tree,
    find_counting_machine,
    refit,
    seen_by,
)
from csprop.learning.description import alone, description, with_machine
from csprop.learning.tree import PrefixTree, Table
from csprop.learning.verdict import describe_machine
from csprop.tasks.base import Task
from csprop.tasks.rows import RowsTask
from csprop.training.result import Preference
from csprop.training.scores import interval

AnyMachine = Machine | CounterMachine
MOST_TOKENS = 1 << 19
"""Tokens of the rows that are searched; of a larger file, a part is drawn. All rows are counted."""
MANY_SYMBOLS, MANY_CLASSES = 64, 16
"""With more of them fewer tokens are searched: every node has a child for each token, and a count for
each class."""
CLEAR = 7.0
"""Bits by which a machine must describe the rows shorter than they can be described without one, and
by which one that counts must describe them shorter than a finite one."""
PATIENCE = 2
"""Candidates in a row without a better machine, after which the search ends."""


@dataclass(frozen=True)
class Candidate:
    """A machine that was found on the training rows."""

    method: str
    family: str
    machine: AnyMachine
    bits: float
    """Of the shortest description of all rows with its help."""
    misses: int
    """Held-out labels that it contradicts."""
    seconds: float

    @property
    def counts(self) -> bool:
        """Return True if the machine counts."""
        return isinstance(self.machine, CounterMachine)


class Search:
    """The rows, and the candidates that were tried on them.

    Args:
        task: names the tokens and classes.
        training: rows that candidates are fitted to.
        held_out: rows that they are tested on.
        seed: of everything random.
        on_event: is called with a line about every candidate.
    """

    def __init__(
        self,
        task: Task,
        training: Examples,
        held_out: Examples,
        seed: int,
        on_event: Callable[[str], None],
    ) -> None:
        self.seed, self.on_event = seed, on_event
        size = (len(task.vocab), len(task.classes))
        generator = np.random.default_rng([seed, 0x1EA4])
        most = MOST_TOKENS // max(1, size[0] // MANY_SYMBOLS, size[1] // MANY_CLASSES)
        drawn = _draw(training, most, generator)
        self.rows, others = _list_rows(drawn), _list_rows(_draw(held_out, most // 4, generator))
        self.networks = _as_task(task, drawn)
        self.training = PrefixTree.of(self.rows, *size)
        self.others = PrefixTree.of(others, *size)
        self.all = PrefixTree.of(self.rows + others, *size)
        self.alone = alone(self.all)
        self.tried: list[Candidate] = []
        self.counted: Counted | None = None

    @property
    def held_out(self) -> int:
        """The number of held-out labels."""
        return int(self.others.totals.sum())

    @property
    def chosen(self) -> Candidate:
        """Of the candidates that are not clearly worse on held-out rows, the shortest description.

        One that counts is chosen if it is shorter than every finite one by a clear margin.
        """
        least = min(each.misses for each in self.tried)
        low, _ = interval(self.held_out - least, self.held_out)
        fair = [each for each in self.tried if self.held_out - each.misses >= low * self.held_out]
        return min(fair, key=lambda each: each.bits + CLEAR * each.counts)

    def run(self) -> AnyMachine:
        """The machine that is fitted to all rows, after the candidates were tried."""
        self.begin()
        since = 0
        for method in list_methods(self.networks, self.seed):
            if (
                self.tried
                and self.clear(self.chosen.machine)
                and (self._is_plainly_right() or since >= PATIENCE)
            ):
                break
            before = self.chosen.bits if self.tried else np.inf
            if self._try(method.name, method.family, method.tables):
                since = 0 if self.chosen.bits < before - 1e-9 else since + 1
        return self._refit()

    def begin(self) -> None:
        """Try the cheap methods: merging, and then counters."""
        self._try("merging", "merging", merging)
        self._add("counters", "counters", self._counting)

    def _try(self, name: str, family: str, tables: Callable[[PrefixTree], list[Table]]) -> bool:
        """Return True if a way to tables led to a finite machine."""
        return self._add(name, family, lambda: map(self.training.machine, tables(self.training)))

    def _add(self, name: str, family: str, machines: Callable[[], Iterable[AnyMachine]]) -> bool:
        """Add what a way leads to, if it leads to a machine."""
        started = perf_counter()
        found = [
            Candidate(
                name,
                family,
                machine,
                self.bits(self.all, machine),
                count_contradicted(self.others, machine),
                perf_counter() - started,
            )
            for machine in machines()
        ]
        self.tried += found
        said = "nothing"
        if found:
            first = min(found, key=lambda each: each.bits)
            right = self.held_out - first.misses
            said = f"{describe_machine(first.machine)}, {right:,} of {self.held_out:,} held-out labels"
            said = f"{said} right"
        self.on_event(f"{name}: {said}, {perf_counter() - started:.1f} s")
        return bool(found)

    def _counting(self) -> Iterable[AnyMachine]:
        """Return a machine with counters, if it improves on the finite machines found so far."""
        right = [
            each.machine for each in self.tried if not count_contradicted(self.training, each.machine)
        ]
        most = min((self.bits(self.training, each) - CLEAR for each in right), default=None)
        size = self.training.symbols, self.training.classes
        self.counted = find_counting_machine(self.rows, *size, self.seed, most)
        return [] if self.counted is None else [self.counted.machine]

    @staticmethod
    def bits(tree: PrefixTree, machine: AnyMachine) -> float:
        """Those of a machine and of the labels that it contradicts."""
        rows, table, more = as_seen(tree, machine)
        return description(rows, table) + more

    def _is_plainly_right(self) -> bool:
        """Return True if the chosen machine is plainly right."""
        chosen = self.chosen
        families = {each.family for each in self.tried if each.machine == chosen.machine}
        return len(families) > 1 or not (
            chosen.misses or count_contradicted(self.training, chosen.machine)
        )

    def _refit(self) -> AnyMachine:
        """Return the machine with the shortest description of all rows: the chosen one or a refit."""
        chosen = self.chosen.machine
        if isinstance(chosen, CounterMachine):
            again = refit(self.all, chosen)
            return min((chosen, again), key=lambda each: self.bits(self.all, each))
        tables = best(self.all, [np.array(chosen.transitions, np.int32)])
        if not is_plainly_right(self.all, tables[0]):
            tables += merging(self.all)
        return self.all.machine(min(tables, key=lambda table: description(self.all, table)))

    def preference(self, machine: AnyMachine) -> Preference | None:
        """Return the numbers by which a machine with counters was preferred to a finite one."""
        if self.counted is None or not isinstance(machine, CounterMachine):
            return None
        finite = [each for each in self.tried if not each.counts]
        shortest = min(finite, key=lambda each: each.bits) if finite else None
        return Preference(
            counters=machine.counters,
            bits=round(self.bits(self.all, machine)),
            finite_states=None if shortest is None else len(shortest.machine),
            finite_bits=None if shortest is None else round(shortest.bits),
            longer=self.counted.longer,
            misses=self.counted.misses,
            finite_misses=self.counted.finite_misses,
        )

    @property
    def majority(self) -> float:
        """The share of the majority class among the labels."""
        return float(self.all.totals.max() / self.all.totals.sum())

    def unseen(self, machine: AnyMachine) -> frozenset[tuple[int, int]]:
        """The states and tokens of transitions that no row takes.

        Of a machine that counts, pairs of a token and a view of the counts stand for the tokens, and
        only those that some sequence can lead to.
        """
        if isinstance(machine, CounterMachine):
            tree, control = extend_tree(self.all, *seen_by(machine)), machine.control
            possible = views_met(machine).reshape(len(control), control.symbols)
        else:
            tree, control = self.all, machine
            possible = np.ones((len(machine), machine.symbols), bool)
        where, taken = [control.start] * len(tree), set()
        steps = zip(tree.parent.tolist(), tree.token.tolist(), strict=True)
        for node, (up, token) in enumerate(steps):
            if node:
                taken.add((where[up], token))
                where[node] = control.transitions[where[up]][token]
        return frozenset(zip(*(each.tolist() for each in possible.nonzero()), strict=True)) - taken

    def clear(self, machine: AnyMachine) -> bool:
        """Return True if a machine is better than none by a clear margin."""
        rows, table, more = as_seen(self.all, machine)
        return with_machine(rows, table) + more + CLEAR <= self.alone


def _draw(examples: Examples, most: int, generator: np.random.Generator) -> Examples:
    """All rows, or as many as have `most` tokens, drawn; then none has more than a quarter of that."""
    lengths = examples.lengths
    if lengths.sum() <= most:
        return examples
    order = generator.permutation(len(examples))
    fitting = order[lengths[order] <= most // 4]
    if not len(fitting):
        fitting = lengths.argsort()[:1]
    kept = fitting[lengths[fitting].cumsum() <= max(most, lengths[fitting[0]])]
    return examples[np.sort(kept)]


def _list_rows(examples: Examples) -> list[Row]:
    """Tokens and labels of every row."""
    rows = []
    for steps in examples.matrices():
        columns = (steps.tokens.tolist(), steps.labels.tolist(), steps.lengths.tolist())
        for tokens, labels, length in zip(*columns, strict=True):
            rows.append((tokens[:length], [each for each in labels[:length] if each != UNLABELLED]))
    return rows


def _as_task(task: Task, examples: Examples) -> RowsTask:
    """Return some rows as a task of their own; networks see nothing but them."""
    lines = np.arange(1, len(examples) + 1)
    rows = RowsTask(task.name, Rows(list(task.vocab), list(task.classes), task.words, examples, lines))
    rows.order, rows.depth = task.order, task.depth
    return rows
