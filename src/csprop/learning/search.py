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
from functools import partial
from time import perf_counter

import numpy as np

from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.automata.names import describe_size
from csprop.automata.reduction import views_met
from csprop.data.examples import UNLABELLED, Examples
from csprop.data.packing import Rows
from csprop.learning import counting
from csprop.learning.candidates import best, is_plainly_right, merging, train_router
from csprop.learning.counting import Counted, Row, as_seen, count_contradicted
from csprop.learning.description import alone, description, with_machine
from csprop.learning.tree import PrefixTree, Table
from csprop.tasks.base import Task
from csprop.tasks.rows import RowsTask
from csprop.training.scores import Preference, interval

AnyMachine = Machine | CounterMachine
MOST_TOKENS = 1 << 19
"""Tokens of the rows that are searched; of a larger file, a part is drawn. All rows are counted."""
MANY_SYMBOLS, MANY_CLASSES = 64, 16
"""With more of them fewer tokens are searched: nodes have a child for each token, a count by class."""
CLEAR = 7.0
"""Bits that a machine must save, compared with none, and one that counts, compared with finite ones."""
PLACES = (32, 16, 64, 8, 128)
"""Sizes of routers, in the order in which they are tried."""
PATIENCE = 2
"""Routers without a better machine that end the search; one fewer if no row is contradicted."""


@dataclass(frozen=True)
class Candidate:
    """A machine that was found on the training rows."""

    method: str
    """Its first word is the kind of the method; what one kind finds, another can confirm."""
    machine: AnyMachine
    bits: float
    """Of the shortest description of all rows with its help."""
    misses: int
    """Held-out labels that it contradicts."""
    seconds: float

    @property
    def counts(self) -> bool:
        """True if the machine counts."""
        return isinstance(self.machine, CounterMachine)


class Search:
    """The rows, and the candidates: they are fitted to the training rows and tested on the others."""

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
        names = list(task.vocab), list(task.classes), task.words
        lines = np.arange(1, len(drawn) + 1)
        self.networks = RowsTask(task.name, Rows(*names, drawn, lines))  # they see only these rows
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
        """Try the candidates, and return the machine that is fitted to all rows."""
        self.begin()
        since = int(bool(self._right()))
        for places in PLACES:
            if (since >= PATIENCE or self._is_plainly_right()) and self.clear(self.chosen.machine):
                break
            before = self.chosen.bits if self.tried else np.inf
            train = partial(train_router, self.networks, self.seed, places)
            if self._add(f"router of {places} places", partial(self._find, train)):
                since = 0 if self.chosen.bits < before - 1e-9 else since + 1
        return self._refit()

    def begin(self) -> None:
        """Try the cheap methods: merging, and then counters."""
        self._add("merging", partial(self._find, merging))
        self._add("counters", self._counting)

    def _find(self, tables: Callable[[PrefixTree], list[Table]]) -> Iterable[AnyMachine]:
        """Return the finite machines of tables that are fitted to the training rows."""
        return map(self.training.machine, tables(self.training))

    def _add(self, method: str, machines: Callable[[], Iterable[AnyMachine]]) -> bool:
        """Add the candidates that a method leads to; return True if there are any."""
        started, event, right = perf_counter(), "nothing", self.held_out
        more = []
        for machine in machines():
            bits, misses = self.bits(self.all, machine), count_contradicted(self.others, machine)
            more.append(Candidate(method, machine, bits, misses, perf_counter() - started))
        self.tried += more
        if more:
            first = min(more, key=lambda each: each.bits)
            size = describe_size(len(first.machine), first.machine.counters)
            event = f"{size}, {right - first.misses:,} of {right:,} held-out labels right"
        self.on_event(f"{method}: {event}, {perf_counter() - started:.1f} s")
        return bool(more)

    def _counting(self) -> Iterable[AnyMachine]:
        """Return a machine with counters, if it improves on the finite machines found so far."""
        most = min((self.bits(self.training, each) - CLEAR for each in self._right()), default=None)
        size = self.training.symbols, self.training.classes
        self.counted = counting.find_counting_machine(self.rows, *size, self.seed, most)
        return [] if self.counted is None else [self.counted.machine]

    def _right(self) -> list[AnyMachine]:
        """Return the machines that contradict no training label."""
        machines = (each.machine for each in self.tried)
        return [each for each in machines if not count_contradicted(self.training, each)]

    @staticmethod
    def bits(tree: PrefixTree, machine: AnyMachine) -> float:
        """Return the bits of a machine and of the labels that it contradicts."""
        rows, table, more = as_seen(tree, machine)
        return description(rows, table) + more

    def _is_plainly_right(self) -> bool:
        """Return True if the chosen machine contradicts no row, or two kinds of methods found it."""
        if not self.tried:
            return False
        chosen = self.chosen
        kinds = {each.method.split()[0] for each in self.tried if each.machine == chosen.machine}
        wrong = chosen.misses or count_contradicted(self.training, chosen.machine)
        return len(kinds) > 1 or not wrong

    def _refit(self) -> AnyMachine:
        """Return the machine with the shortest description of all rows: the chosen one or a refit."""
        chosen = self.chosen.machine
        if isinstance(chosen, CounterMachine):
            again = counting.refit(self.all, chosen)
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
        """Return the states and tokens of transitions that no row takes.

        Of a machine that counts, pairs of a token and a view of the counts stand for the tokens, and
        only those that some sequence can lead to.
        """
        tree, control = self.all, machine.control
        possible = np.ones((len(control), control.symbols), bool)
        if isinstance(machine, CounterMachine):
            tree = counting.extend_tree(tree, *counting.seen_by(machine))
            possible = views_met(machine).reshape(possible.shape)
        states = np.array(tree.states(np.array(control.transitions)))
        taken = zip(states[tree.parent[1:]].tolist(), tree.token[1:].tolist(), strict=True)
        every = zip(*(each.tolist() for each in possible.nonzero()), strict=True)
        return frozenset(every).difference(taken)

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
    for begin, length in zip(examples.begins.tolist(), examples.lengths.tolist(), strict=True):
        step = slice(begin, begin + length)
        labels = examples.flat_labels[step]
        rows.append((examples.flat_tokens[step].tolist(), labels[labels != UNLABELLED].tolist()))
    return rows
