"""The rows that disagree with a machine: if the machine is right, their labels are wrong."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.data.names import join_symbols
from csprop.data.summary import find_disagreements
from csprop.errors import InputError
from csprop.tasks.rows import RowsTask
from csprop.training.checkpoint import SUSPECTS

LONGEST = 40
"""Characters of a suspect's sequence that are shown."""
FEW = 10
"""Suspects that are shown."""


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


def suspects(task: RowsTask, machine: Machine | CounterMachine) -> list[Suspect]:
    """Return the rows that disagree with a machine, in the order of the file."""
    found, data = [], task.data
    for row, step, answer in find_disagreements(machine, data):
        begin, length = int(data.begins[row]), int(data.lengths[row])
        names = [task.vocab[token] for token in data.flat_tokens[begin : begin + length].tolist()]
        label = task.classes[int(data.flat_labels[begin + step])]
        sequence = join_symbols(names, task.words)
        found.append(Suspect(task.line(row), sequence, label, task.classes[answer], step + 1))
    return found


def suspects_file(found: Sequence[Suspect]) -> dict[str, bytes]:
    """Return the file of the suspects, one JSON object per line; without suspects, no file."""
    lines = [json.dumps(asdict(each), ensure_ascii=False) + "\n" for each in found]
    return {SUSPECTS: "".join(lines).encode()} if lines else {}


def read(folder: Path) -> list[Suspect]:
    """Return the suspects in a run directory; an empty list if it has no such file.

    Raises:
        InputError: the file is malformed.
    """
    path = folder / SUSPECTS
    if not path.exists():
        return []
    try:
        found = [Suspect(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]
    except (TypeError, ValueError):
        raise InputError(f"{path}: is malformed; the run is damaged") from None
    kinds = {"line": int, "sequence": str, "label": str, "answer": str, "position": int}
    if not all(isinstance(getattr(each, name), kinds[name]) for each in found for name in kinds):
        raise InputError(f"{path}: is malformed; the run is damaged")
    return found
