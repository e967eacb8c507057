"""From labelled rows to the best machine, and what can be said of it.

Each candidate is fitted to the training rows alone. The held-out rows come first in the choice: a
candidate that is clearly worse on them than the best one is out. Among the others the shortest
description of all rows decides (`description.py`), which weighs the contradicted labels against the
states. The search ends early where a candidate is plainly right: it contradicts no row, or another kind
of candidate has found the same machine. In the end a machine is fitted to all rows, from the chosen one
and from anew.

A machine must be better than none by a clear margin: it must describe the rows shorter by `CLEAR` bits
than the better of two ways that know no machine (`description.alone`). A code that is fixed beforehand
is shorter by b bits than the right one at most once in 2^b times, and these two are close to the right
one for labels that are independent, copied, or carried along a row.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numpy as np
import torch

from csprop.automata.automaton import Automaton
from csprop.automata.machine import Machine
from csprop.errors import InputError
from csprop.learning.candidates import Method, best, merging, methods, plain
from csprop.learning.description import alone, description, with_machine
from csprop.learning.suspects import Suspect, file_of, suspects
from csprop.learning.tree import PrefixTree
from csprop.learning.verdict import Verdict, counted
from csprop.runs import Run, from_machine
from csprop.tasks import from_rows, resolve
from csprop.tasks.base import UNLABELLED, Task
from csprop.tasks.examples import Examples
from csprop.tasks.file import FileTask
from csprop.tasks.pack import Table
from csprop.tasks.rows import RowsTask
from csprop.training.checkpoint import ROWS
from csprop.training.config import configure
from csprop.training.metrics import interval
from csprop.training.session import refuse_existing, training_data

Row = tuple[list[int], list[int]]
"""Tokens and labels; one label is that of the whole."""
MOST_TOKENS = 1 << 19
"""Tokens of the rows that are searched; of a larger file, a part is drawn. All rows are counted."""
MANY_SYMBOLS, MANY_CLASSES = 64, 16
"""With more of them fewer tokens are searched: every node has a child for each token, and a count for
each class."""
CLEAR = 7.0
"""Bits by which a machine must describe the rows shorter than they can be described without one."""
PATIENCE = 2
"""Candidates in a row without a better machine, after which the search ends."""


@dataclass(frozen=True)
class Candidate:
    """A machine that was found on the training rows."""

    method: str
    family: str
    machine: Machine
    bits: float
    """Of the shortest description of all rows with its help."""
    misses: int
    """Held-out labels that it contradicts."""
    seconds: float


@dataclass(frozen=True)
class Learned:
    """What came out."""

    machine: Automaton
    """The machine: the minimal automaton, with the names of tokens and classes."""
    verdict: Verdict
    suspects: list[Suspect]
    """The rows that disagree with the machine; if it is right, their labels are wrong."""
    candidates: list[Candidate]
    """All that were tried, in their order."""
    run: Run | None
    """A model with the machine in its weights, certified; None if there is no clear machine."""

    def __repr__(self) -> str:
        return f"Learned({self.verdict.sentence})"


def learn(
    source: str | Path | Task | Iterable[Any],
    labels: Iterable[Any] | None = None,
    *,
    seed: int = 0,
    out: str | Path | None = None,
    on_event: Callable[[str], None] = lambda line: None,
    **changes: Any,
) -> Learned:
    """Find the machine behind labelled sequences, although some labels may be wrong.

    Args:
        source: a data file, the name of a task, a task, or with `labels` a list or column of sequences.
        labels: the label of each sequence, or a list of labels, one for every token.
        seed: decides which rows are held out, and the initial weights of networks.
        out: a run directory to write: a model that has the machine in its weights, its certificate, and
            the suspects. Without it everything is kept in memory.
        on_event: is called with a line about every step.
        changes: options of training that decide the rows of a task, such as `length` and `samples`.

    Raises:
        InputError: the source cannot be read or has too few rows, or the directory holds a run.
    """
    task = resolve(cast(Any, source)) if labels is None else from_rows(cast(Any, source), labels)
    if not task.finite:
        raise InputError(f"{task.name}: has infinitely many states, which no finite machine holds")
    if task.oracle is None and changes:
        raise InputError(f"{task.source}: has its own rows: leave out {next(iter(changes))}")
    if out is not None:
        refuse_existing([out], resumable=False)
    config = configure(task, "router", seed, **changes)
    training, held_out = training_data(task, config)
    search = _Search(task, training, held_out, seed, on_event)
    machine = search.run()
    automaton = Automaton.named(machine, task.vocab, task.classes, task.words)
    clear = search.clear(machine)
    wrong = suspects(task, machine) if clear and isinstance(task, RowsTask) else []
    rows = len(training) + len(held_out)
    found = Verdict(
        source=task.source,
        clear=clear,
        states=len(automaton),
        unseen=search.unseen(machine),
        rows=rows,
        agreed=rows - len(wrong),
        held_out=search.held_out,
        held_out_right=search.held_out - search.chosen.misses,
        held_out_states=len(search.chosen.machine),
        same=search.chosen.machine == machine,
        commonest=search.commonest,
        is_task=task.oracle is not None,
    )
    if not clear:
        return Learned(automaton, found, wrong, search.tried, None)
    if out is not None and isinstance(task, RowsTask) and not isinstance(task, FileTask):
        task = task.save(Path(out) / ROWS)
    result = {"learned": found.as_json()}
    run = from_machine(task, automaton, out, seed, result, config.recipe, file_of(wrong))
    return Learned(automaton, replace(found, certificate=run.certificate), wrong, search.tried, run)


class _Search:
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
        drawn = _drawn(training, most, generator)
        rows, others = _listed(drawn), _listed(_drawn(held_out, most // 4, generator))
        self.networks = _as_task(task, drawn)
        self.training = PrefixTree.of(rows, *size)
        self.others = PrefixTree.of(others, *size)
        self.all = PrefixTree.of(rows + others, *size)
        self.alone = alone(self.all)
        self.tried: list[Candidate] = []

    @property
    def held_out(self) -> int:
        """The number of held-out labels."""
        return int(self.others.totals.sum())

    @property
    def chosen(self) -> Candidate:
        """Of the candidates that are not clearly worse on held-out rows, the shortest description."""
        least = min(each.misses for each in self.tried)
        low, _ = interval(self.held_out - least, self.held_out)
        fair = [each for each in self.tried if self.held_out - each.misses >= low * self.held_out]
        return min(fair, key=lambda each: each.bits)

    def run(self) -> Machine:
        """The machine that is fitted to all rows, after the candidates were tried."""
        since = 0
        for method in methods(self.networks, self.seed):
            before = self.chosen.bits if self.tried else np.inf
            if not self._try(method):
                continue
            since = 0 if self.chosen.bits < before - 1e-9 else since + 1
            if self.clear(self.chosen.machine) and (self._plain() or since >= PATIENCE):
                break
        return self._fitted()

    def _try(self, method: Method) -> bool:
        """Whether a method led to a machine."""
        started = perf_counter()
        found = [
            Candidate(
                method.name,
                method.family,
                machine,
                description(self.all, np.array(machine.transitions, np.int32)),
                _contradicted(self.others, machine),
                perf_counter() - started,
            )
            for machine in map(self.training.machine, method.tables(self.training))
        ]
        self.tried += found
        said = "nothing"
        if found:
            first = min(found, key=lambda each: each.bits)
            right = self.held_out - first.misses
            said = (
                f"{counted(len(first.machine), 'state')}, {right:,} of {self.held_out:,} held-out "
                "labels right"
            )
        self.on_event(f"{method.name}: {said}, {perf_counter() - started:.1f} s")
        return bool(found)

    def _plain(self) -> bool:
        """Whether the chosen machine is plainly right."""
        chosen = self.chosen
        families = {each.family for each in self.tried if each.machine == chosen.machine}
        return len(families) > 1 or not (chosen.misses or _contradicted(self.training, chosen.machine))

    def _fitted(self) -> Machine:
        """The machine with the shortest description of all rows, from the chosen one and from anew."""
        tables = best(self.all, [np.array(self.chosen.machine.transitions, np.int32)])
        if not plain(self.all, tables[0]):
            tables += merging(self.all)
        return self.all.machine(min(tables, key=lambda table: description(self.all, table)))

    @property
    def commonest(self) -> float:
        """The share of the commonest class among the labels."""
        return float(self.all.totals.max() / self.all.totals.sum())

    def unseen(self, machine: Machine) -> frozenset[tuple[int, int]]:
        """The states and tokens of transitions that no row takes."""
        where, taken = [machine.start] * len(self.all), set()
        steps = zip(self.all.parent.tolist(), self.all.token.tolist(), strict=True)
        for node, (up, token) in enumerate(steps):
            if node:
                taken.add((where[up], token))
                where[node] = machine.transitions[where[up]][token]
        return frozenset(np.ndindex(len(machine), machine.symbols)) - taken

    def clear(self, machine: Machine) -> bool:
        """Whether a machine is better than none by a clear margin."""
        return with_machine(self.all, np.array(machine.transitions, np.int32)) + CLEAR <= self.alone


def _contradicted(tree: PrefixTree, machine: Machine) -> int:
    """The number of labels that a machine contradicts."""
    counts = tree.counts(np.array(machine.transitions, np.int32))
    answers = [0 if each is None else each for each in machine.outputs]
    return int(counts.sum() - counts[np.arange(len(counts)), answers].sum())


def _drawn(examples: Examples, most: int, generator: np.random.Generator) -> Examples:
    """All rows, or as many as have `most` tokens, drawn; then none has more than a quarter of that."""
    lengths = examples.lengths.numpy()
    if lengths.sum() <= most:
        return examples
    order = generator.permutation(len(examples))
    fitting = order[lengths[order] <= most // 4]
    if not len(fitting):
        fitting = lengths.argsort()[:1]
    kept = fitting[lengths[fitting].cumsum() <= max(most, lengths[fitting[0]])]
    return examples[torch.from_numpy(np.sort(kept))]


def _listed(examples: Examples) -> list[Row]:
    """Tokens and labels of every row."""
    rows = []
    for steps in examples.windows():
        columns = (steps.tokens.tolist(), steps.labels.tolist(), steps.lengths.tolist())
        for tokens, labels, length in zip(*columns, strict=True):
            rows.append((tokens[:length], [each for each in labels[:length] if each != UNLABELLED]))
    return rows


def _as_task(task: Task, examples: Examples) -> RowsTask:
    """Some rows as a task of their own, so that networks see nothing but them."""
    lines = np.arange(1, len(examples) + 1)
    rows = RowsTask(task.name, Table(list(task.vocab), list(task.classes), task.words, examples, lines))
    rows.order, rows.depth = task.order, task.depth
    return rows
