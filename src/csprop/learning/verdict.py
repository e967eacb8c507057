"""The verdict on a learned machine, in plain words, and the rows that disagree with it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.automata.names import describe_size
from csprop.data.names import join_symbols
from csprop.data.summary import find_disagreements
from csprop.errors import InputError
from csprop.proof.certificate import Certificate
from csprop.tasks.rows import RowsTask
from csprop.training.checkpoint import SUSPECTS
from csprop.training.scores import Evidence, Preference, percent

LONGEST = 40
"""Characters of a suspect's sequence that are shown."""
FEW = 10
"""Suspects that are shown."""


@dataclass(frozen=True, kw_only=True)
class Verdict(Evidence):
    """The quality of a machine, and the evidence for it."""

    source: str
    clear: bool
    """True if it is better than no machine by a clear margin."""
    states: int
    is_task: bool
    certificate: Certificate | None = None
    unseen: frozenset[tuple[int, int]] = frozenset()
    """States and tokens of transitions that no row takes: they are guesses."""

    @property
    def evidence(self) -> Evidence:
        """The numbers alone."""
        return Evidence(**{each.name: getattr(self, each.name) for each in fields(Evidence)})

    @property
    def size(self) -> str:
        """The number of states, and of counters."""
        return self._sized(self.states)

    def _sized(self, states: int) -> str:
        return describe_size(states, 0 if self.counting is None else self.counting.counters)

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        if not self.clear:
            return (
                f"{self.source}: no machine is clearly better than none; always predicting the "
                f"majority class is right on {percent(self.majority)} of the labels"
            )
        machine = f"{self.source}: a machine of {self.size}"
        if self.is_task:
            assert self.certificate is not None
            return f"{machine}, {self.certificate.verdict}"
        every = self.agreed == self.rows
        agreed = f"all {self.rows:,}" if every else f"{self.agreed:,} of {self.rows:,}"
        return f"{machine}, which agrees with {agreed} rows"

    @property
    def text(self) -> str:
        """The verdict as a paragraph."""
        if not self.clear:
            return f"{self.sentence}."
        low, high = map(percent, self.interval)
        who = "it" if self.same else f"a machine of {self._sized(self.held_out_states)}"
        said = [
            f"{self.sentence}.",
            f"Found without the held-out rows, {who} is right on {self.held_out_right:,} of "
            f"{self.held_out:,} of their labels ({percent(self.accuracy)}; 95% interval {low} to "
            f"{high}). Always predicting the majority class is right on {percent(self.majority)} of "
            "all labels.",
        ]
        if self.counting is not None:
            said.insert(1, explain_counting(self.counting))
        if self.unseen_transitions:
            occur = _count(self.unseen_transitions, "transition occurs", "transitions occur")
            said.append(f"{occur} in no row: there the machine is a guess.")
        if self.rows > self.agreed and not self.is_task:
            disagree = _count(self.rows - self.agreed, "row disagrees", "rows disagree")
            said.append(f"{disagree} with it, and may be labelled wrongly: see {SUSPECTS}.")
        if self.is_task and self.certificate is not None:
            said.append(self.certificate.statement)
        return " ".join(said)


def explain_counting(chosen: Preference) -> str:
    """Return the reason why a machine that counts was chosen, in words."""
    bits = "No finite machine of a reasonable size was found."
    if chosen.finite_bits is not None and chosen.finite_states is not None:
        bits = (
            f"It describes the labels in {chosen.bits:,} bits; the best finite machine, of "
            f"{describe_size(chosen.finite_states)}, takes {chosen.finite_bits:,}."
        )
    return (
        f"{bits} Fitted to the shorter rows alone, a machine that counts was wrong on "
        f"{chosen.misses:,} of {chosen.longer:,} labels of longer rows, and a finite one on "
        f"{chosen.finite_misses:,}."
    )


def _count(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


@dataclass(frozen=True)
class Suspect:
    """A row whose label is not the machine's answer."""

    line: int
    """Its line in the data file, from 1 on; without a file, the number of the row."""
    sequence: str
    label: str
    """The label of the row; if every token has one, the first that differs."""
    answer: str
    """The machine's answer there."""
    position: int
    """The number of tokens before the label."""

    def short(self, most: int) -> str:
        """Return the sequence, cut to at most so many characters."""
        return self.sequence if len(self.sequence) <= most else f"{self.sequence[: most - 1]}…"


def find_suspects(task: RowsTask, machine: Machine | CounterMachine) -> list[Suspect]:
    """Return the rows that disagree with a machine, in the order of the file."""
    suspects, data = [], task.data
    for row, step, answer in find_disagreements(machine, data):
        begin, length = int(data.begins[row]), int(data.lengths[row])
        names = [task.vocab[token] for token in data.flat_tokens[begin : begin + length].tolist()]
        label = task.classes[int(data.flat_labels[begin + step])]
        sequence = join_symbols(names, task.words)
        suspects.append(Suspect(task.line(row), sequence, label, task.classes[answer], step + 1))
    return suspects


def write_suspects(suspects: Sequence[Suspect]) -> dict[str, bytes]:
    """Return the file of the suspects, one JSON object per line; without suspects, no file."""
    lines = [json.dumps(asdict(each), ensure_ascii=False) + "\n" for each in suspects]
    return {SUSPECTS: "".join(lines).encode()} if lines else {}


def read_suspects(folder: Path) -> list[Suspect]:
    """Return the suspects in a run directory; an empty list if it has no such file.

    Raises:
        InputError: the file is malformed.
    """
    path = folder / SUSPECTS
    if not path.exists():
        return []
    kinds = [int, str, str, str, int]
    try:
        suspects = [Suspect(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]
        if any(list(map(type, vars(each).values())) != kinds for each in suspects):
            raise TypeError
    except (TypeError, ValueError):
        raise InputError(f"{path}: is malformed; the run is damaged") from None
    return suspects
