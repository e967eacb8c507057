"""From labelled rows to the best machine and a verdict on it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from csprop import notebook
from csprop.automata.automaton import AnyAutomaton, name_machine
from csprop.errors import InputError
from csprop.learning.search import Candidate, Search
from csprop.learning.verdict import FEW, LONGEST, Suspect, Verdict, find_suspects, write_suspects
from csprop.progress import lines
from csprop.runs.machines import from_machine
from csprop.runs.run import Run
from csprop.tasks import from_rows, resolve
from csprop.tasks.base import Task
from csprop.tasks.rows import FileTask, RowsTask
from csprop.training.batches import split_data
from csprop.training.checkpoint import ROWS, refuse_existing
from csprop.training.config import check_seed
from csprop.training.presets import preset


@dataclass(frozen=True)
class Learned:
    """The result of `learn`."""

    machine: AnyAutomaton
    """The machine, with the names of tokens and classes: the minimal automaton, or one that counts."""
    verdict: Verdict
    suspects: list[Suspect]
    """The rows that disagree with the machine; if it is right, their labels are wrong."""
    candidates: list[Candidate]
    """All that were tried, in their order."""
    run: Run | None
    """A model with the machine in its weights, certified; None if there is no clear machine."""

    def __repr__(self) -> str:
        return f"Learned({self.verdict.sentence})"

    def _repr_html_(self) -> str:
        parts = [notebook.paragraph(self.verdict.text)]
        if self.verdict.clear:
            parts.append(self.machine._repr_html_())
        if few := self.suspects[:FEW]:
            rows = [[str(each.line), each.short(LONGEST), each.label, each.answer] for each in few]
            first = f"the first {FEW} of " if len(self.suspects) > FEW else ""
            parts.append(notebook.paragraph(f"Suspects: {first}{len(self.suspects):,}"))
            parts.append(notebook.table(["line", "sequence", "label", "machine says"], rows))
        return notebook.card(f"Learned from {self.verdict.source}", *parts)


def learn(
    source: str | Path | Task | Iterable[Any],
    labels: Iterable[Any] | None = None,
    *,
    seed: int = 0,
    out: str | Path | None = None,
    length: int | None = None,
    samples: int | None = None,
    on_event: Callable[[str], None] = lambda line: None,
    progress: bool = True,
) -> Learned:
    """Find the machine behind labelled sequences, although some labels may be wrong.

    It is a finite machine, or one that counts, where that explains the rows clearly better.

    Args:
        source: a data file, the name of a task, a task, or with `labels` a list or column of sequences.
        labels: the label of each sequence, or a list of labels, one for every token.
        seed: decides which rows are held out, and the initial weights of networks.
        out: a run directory to write: a model that has the machine in its weights, its certificate, and
            the suspects. Without it everything is kept in memory.
        length: the length of the sequences that are drawn for a task; by default the task's.
        samples: how many are drawn; by default as many as the task says.
        on_event: is called with a line about every step.
        progress: show a bar, in a notebook or on a terminal.

    Raises:
        InputError: the source cannot be read or has too few rows, or the directory holds a run.
    """
    task = resolve(cast(Any, source)) if labels is None else from_rows(cast(Any, source), labels)
    if not task.finite and task.counting is None:
        raise InputError(
            f"{task.name}: has infinitely many states and declares no machine that counts: make it a "
            "CountingTask"
        )
    options: dict[str, Any] = {"length": length, "samples": samples}
    options = {name: value for name, value in options.items() if value is not None}
    for name, value in options.items() if task.oracle is None else ():
        raise InputError(f"{task.source}: has its own rows: leave it out", name, value)
    check_seed(seed)
    if out is not None:
        refuse_existing([out], resumable=False)
    recipe = replace(preset("router", task).recipe, **options)
    training, held_out = split_data(task, recipe, seed)
    with lines(f"learn {task.name}", on_event, progress) as show:
        search = Search(task, training, held_out, seed, show)
        machine = search.run()
    automaton = name_machine(machine, task.vocab, task.classes, task.words)
    clear = search.clear(machine)
    wrong = find_suspects(task, machine) if clear and isinstance(task, RowsTask) else []
    rows = len(training) + len(held_out)
    unseen = search.unseen(machine)
    verdict = Verdict(
        source=task.source,
        clear=clear,
        states=len(automaton),
        unseen=unseen,
        unseen_transitions=len(unseen),
        rows=rows,
        agreed=rows - len(wrong),
        held_out=search.held_out,
        held_out_right=search.held_out - search.chosen.misses,
        held_out_states=len(search.chosen.machine),
        same=search.chosen.machine == machine,
        majority=search.majority,
        is_task=task.oracle is not None,
        counting=search.preference(machine),
    )
    if not clear:
        return Learned(automaton, verdict, wrong, search.tried, None)
    if out is not None and isinstance(task, RowsTask) and not isinstance(task, FileTask):
        task = task.save(Path(out) / ROWS)
    run = from_machine(task, automaton, out, seed, verdict.evidence, recipe, write_suspects(wrong))
    return Learned(automaton, replace(verdict, certificate=run.certificate), wrong, search.tried, run)
