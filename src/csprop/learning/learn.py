"""From labelled rows to the best machine, and what can be said of it.

Each candidate is fitted to the training rows alone. The held-out rows come first in the choice: a
candidate that is clearly worse on them than the best one is out. Among the others the shortest
description of all rows decides (`polishing.py`), which weighs the contradicted labels against the
states. The search ends early where a candidate is plainly right: it contradicts no row, or another kind
of candidate has found the same machine. In the end the chosen machine is polished on all rows.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from csprop.automata.automaton import Automaton
from csprop.automata.machine import Machine
from csprop.errors import InputError
from csprop.learning.candidates import Method, best, merging, methods, plain
from csprop.learning.polishing import description
from csprop.learning.suspects import Suspect, suspects, write
from csprop.learning.tree import PrefixTree, Table
from csprop.learning.verdict import Verdict
from csprop.runs import ROWS, Run, from_machine
from csprop.tasks import from_rows, resolve
from csprop.tasks.base import UNLABELLED, Task
from csprop.tasks.examples import Examples
from csprop.tasks.file import FileTask
from csprop.tasks.rows import RowsTask
from csprop.training.config import configure
from csprop.training.metrics import interval
from csprop.training.session import refuse_existing, training_data

MOST_TOKENS = 1 << 19
"""Tokens of the rows that are searched; of a larger file, a part is drawn. All rows are counted."""
FEW_CLASSES = 16
"""With more classes fewer tokens are searched: every node counts its labels by class."""
CLEAR = 10.0
"""Bits by which a machine must describe the rows shorter than their commonest class alone does."""
PATIENCE = 2
"""Candidates in a row without a better machine, after which the search ends."""


@dataclass(frozen=True)
class Candidate:
    """A machine that was found on the training rows."""

    method: str
    family: str
    machine: Machine
    table: Table
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
    task = resolve(source) if labels is None else from_rows(source, labels)  # pyright: ignore
    if not task.finite:
        raise InputError(f"{task.name}: has infinitely many states, which no finite machine holds")
    if out is not None:
        refuse_existing([out])
        if isinstance(task, RowsTask) and not isinstance(task, FileTask):
            task = task.save(Path(out) / ROWS)
    config = configure(task, "router", seed, **changes)
    training, held_out = training_data(task, config)
    search = _Search(task, training, held_out, seed, on_event)
    tried, machine = search.run()
    automaton = Automaton.named(machine, task.vocab, task.classes, task.words)
    wrong = suspects(task, machine) if isinstance(task, RowsTask) else []
    rows = len(training) + len(held_out)
    found = Verdict(
        source=task.source,
        clear=search.clear,
        states=len(automaton),
        rows=rows,
        agreed=rows - len(wrong),
        held_out=search.held_out,
        held_out_right=search.held_out - search.chosen.misses,
        commonest=search.commonest,
        is_task=task.oracle is not None,
    )
    if not search.clear:
        return Learned(automaton, found, wrong, tried, None)
    run = from_machine(task, automaton, out, seed, {"learned": found.as_json()})
    if out is not None and wrong:
        write(wrong, Path(out))
    return Learned(automaton, replace(found, certificate=run.certificate), wrong, tried, run)


class _Search:
    def __init__(
        self,
        task: Task,
        training: Examples,
        held_out: Examples,
        seed: int,
        on_event: Callable[[str], None],
    ) -> None:
        self.task, self.seed, self.on_event = task, seed, on_event
        size = (len(task.vocab), len(task.classes))
        generator = np.random.default_rng([seed, 0x1EA4])
        most = MOST_TOKENS // max(1, len(task.classes) // FEW_CLASSES)
        rows = _drawn(training, most, generator)
        others = _drawn(held_out, most // 4, generator)
        self.training = PrefixTree.of(rows, *size)
        self.others = PrefixTree.of(others, *size)
        self.all = PrefixTree.of(rows + others, *size)
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

    def run(self) -> tuple[list[Candidate], Machine]:
        """All candidates that were tried, and the chosen machine, polished on all rows."""
        since = 0
        for method in methods(self.task, self.seed):
            count, before = len(self.tried), self.chosen.bits if self.tried else np.inf
            self._try(method)
            if len(self.tried) == count:
                continue
            since = 0 if self.chosen.bits < before - 1e-9 else since + 1
            if self._plain() or (since >= PATIENCE and self._clear(self.chosen.bits)):
                break
        return self.tried, self._fitted()

    def _try(self, method: Method) -> None:
        started = perf_counter()
        for table in method.tables(self.training):
            machine = self.training.machine(table)
            small = np.array(machine.transitions, np.int32)
            candidate = Candidate(
                method.name,
                method.family,
                machine,
                small,
                description(self.all, small),
                _contradicted(self.others, machine),
                perf_counter() - started,
            )
            self.tried.append(candidate)
            right = self.held_out - candidate.misses
            self.on_event(
                f"{method.name}: {len(machine)} states, {right:,} of {self.held_out:,} held-out labels "
                f"right, {candidate.seconds:.1f} s"
            )

    def _plain(self) -> bool:
        """Whether the chosen machine is plainly right."""
        chosen = self.chosen
        if not chosen.misses and not _contradicted(self.training, chosen.machine):
            return self._clear(chosen.bits)
        families = {each.family for each in self.tried if each.machine == chosen.machine}
        return len(families) > 1

    def _fitted(self) -> Machine:
        """The machine with the shortest description of all rows, from the chosen one and from anew."""
        tables = best(self.all, [self.chosen.table])
        if not plain(self.all, tables[0]):
            tables += merging(self.all)
        table = min(tables, key=lambda table: description(self.all, table))
        self.bits = description(self.all, table)
        return self.all.machine(table)

    @property
    def commonest(self) -> float:
        """The share of the commonest class among the labels."""
        return float(self.all.totals.max() / self.all.totals.sum())

    @property
    def clear(self) -> bool:
        """Whether the machine is better than the commonest class by a clear margin."""
        return self._clear(self.bits)

    def _clear(self, bits: float) -> bool:
        return bits + CLEAR < description(self.all, np.zeros((1, self.all.symbols), np.int32))


def _contradicted(tree: PrefixTree, machine: Machine) -> int:
    """The number of labels that a machine contradicts."""
    counts = tree.counts(np.array(machine.transitions, np.int32))
    answers = [0 if each is None else each for each in machine.outputs]
    return int(counts.sum() - counts[np.arange(len(counts)), answers].sum())


def _drawn(examples: Examples, most: int, generator: np.random.Generator) -> list[Any]:
    """Tokens and labels of all rows, or of as many as have `most` tokens, drawn."""
    lengths = examples.lengths.numpy()
    order = np.arange(len(examples))
    if lengths.sum() > most:
        order = generator.permutation(len(examples))
        order = order[: max(1, int((lengths[order].cumsum() <= most).sum()))]
    rows = []
    for steps in examples[torch.from_numpy(order)].windows(1 << 16):
        for tokens, labels, length in zip(
            steps.tokens.tolist(), steps.labels.tolist(), steps.lengths.tolist(), strict=True
        ):
            given = [label for label in labels[:length] if label != UNLABELLED]
            rows.append((tokens[:length], given))
    return rows
