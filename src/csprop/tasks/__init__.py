"""The tasks that a model learns: built-in ones, machines, and the user's own data."""

import re
import reprlib
from itertools import chain
from pathlib import Path
from typing import Any

from csprop.automata.automaton import automaton_from_json
from csprop.data.examples import Examples
from csprop.data.formats import SUFFIXES
from csprop.data.summary import Summary
from csprop.errors import InputError, did_you_mean
from csprop.tasks import arithmetic, brackets, finite, powers, whole
from csprop.tasks.base import Task
from csprop.tasks.group import GROUPS, Cyclic, Group
from csprop.tasks.machine import CountingMachineTask, CountingTask, MachineTask, machine_task
from csprop.tasks.rows import FileTask, RowsTask, from_file, from_rows
from csprop.tasks.tomita import Tomita

__all__ = [
    "CountingMachineTask", "CountingTask", "Examples", "FileTask", "MachineTask", "RowsTask", "Summary",
    "Task", "catalogue", "from_description", "from_file", "from_rows", "get", "machine_task", "resolve",
]  # fmt: skip

SINGLE: tuple[type[Task], ...] = (
    finite.Parity, finite.CycleNav, finite.FlipFlop, finite.EvenPairs,
    arithmetic.ModularArithmetic, arithmetic.ModularPrecedence,
    brackets.Parenthesis, brackets.ParenthesisWords, brackets.ParenthesisPrefix, brackets.Interleaved,
    powers.PowersSum, powers.Majority,
    whole.ModularBrackets, whole.SolveEquation, whole.MissingDuplicate,
)  # fmt: skip
"""Tasks without a parameter."""
KINDS: dict[str, tuple[str, ...]] = {
    "Counting in a circle": ("parity", "mod3", "mod3-residue", "mod3-reset", "cycle-nav"),
    "Memory and arithmetic": (
        *("flip-flop", "flip-flop-language", "even-pairs"),
        *("modular-arithmetic", "modular-arithmetic-precedence"),
    ),
    "The languages of Tomita": tuple(f"tomita-{number}" for number in range(1, 8)),
    "Brackets and equal numbers": (
        *("parenthesis", "parenthesis-words", "parenthesis-prefix", "interleaved", "nested-3"),
        *(*powers.POWERS, "majority"),
    ),
    "Products in a group": tuple(f"group-{group}" for group in (*GROUPS, "C60")),
    "With an answer at the end only; no proof exists for these": (
        *("modular-arithmetic-brackets", "solve-equation", "missing-duplicate"),
    ),
}
"""One task of each kind, by what is asked."""


def get(name: str) -> Task:
    """Return a built-in task by its name, such as "parity" or "mod3"; `csprop tasks` lists all names.

    Raises:
        InputError: there is no built-in task of this name.
    """
    for task in SINGLE:
        if name == task.name:
            return task()
    if name in powers.POWERS:
        return powers.Powers(name)
    if match := re.fullmatch(r"flip-flop-language(-0|-[1-9]\d{0,8})?", name):
        return finite.FlipFlopLanguage(int(match[1][1:]) if match[1] else None)
    if match := re.fullmatch(r"nested-(\d{1,9})", name):
        return brackets.Nested(int(match[1]))
    if match := re.fullmatch(r"mod(\d{1,9})(-residue|-reset)?", name):
        kinds = {"-residue": finite.ModularResidue, "-reset": finite.ModularReset}
        return kinds.get(match[2], finite.Modular)(int(match[1]))
    if match := re.fullmatch(r"tomita-(\d{1,9})", name):
        return Tomita(int(match[1]))
    if match := re.fullmatch(r"group-(\w+?)(?:-(all|[1-9]\d{0,8}))?", name):
        group, tokens = match[1], match[2] or ""
        if re.fullmatch(r"C(0|[1-9]\d{0,8})", group):
            return Cyclic(int(group[1:]), tokens)
        if group in GROUPS:
            return Group(group, tokens)
    raise InputError(f"there is no task {name!r}: {_suggest(name)}")


def _suggest(name: str) -> str:
    """Return the nearest name, and where all names are listed."""
    known = [*chain.from_iterable(KINDS.values()), *(f"group-{group}-all" for group in GROUPS)]
    for number in map(int, re.findall(r"\d{1,9}", name)[:1]):  # of a task that is not listed
        known += [f"mod{number}", f"mod{number}-residue", f"mod{number}-reset", f"group-C{number}"]
    if near := did_you_mean(name, known):
        return f"{near} `csprop tasks` lists all"
    return "`csprop tasks` lists all; for data of your own, give a .jsonl, .csv or .tsv file"


def resolve(task: str | Path | Task) -> Task:
    """Return a task from its name or its data file; a task is returned unchanged.

    Raises:
        InputError: there is no such task or file, or a task of the user's own has the name of a
            built-in one.
    """
    if isinstance(task, str) and (Path(task).suffix in SUFFIXES or "/" in task):
        task = Path(task)
    if isinstance(task, Path):
        return from_file(task)
    if isinstance(task, str):
        try:
            return get(task)
        except InputError:
            if Path(task).is_file():
                return from_file(Path(task))  # which says how its name has to end
            raise
    if not isinstance(task, Task):
        raise InputError(
            f"{reprlib.repr(task)} is not a task: give a name such as 'parity', a data file, or a Task"
        )
    if task.oracle is not None and _is_taken(task):
        raise InputError(f"{task.name!r} is the name of a built-in task: give your task another name")
    return task


def _is_taken(task: Task) -> bool:
    """Return True if a task has the name of a built-in one but differs from it."""
    try:
        known = get(task.name)
    except InputError:
        return False
    return (type(known), known.vocab, known.classes) != (type(task), task.vocab, task.classes)


def from_description(values: dict[str, Any], folder: Path) -> Task:
    """Return the task that `Task.describe` described.

    Args:
        values: the result of `describe`, as in config.json.
        folder: the run directory, where a relative path of data begins.

    Raises:
        InputError: it is a task of the user's own, which csprop cannot find by its name, or a machine
            that is malformed or has the name of a built-in task.
    """
    if "automaton" in values:
        return resolve(machine_task(automaton_from_json(values["automaton"]), values["name"]))
    if "data" not in values:
        return get(values["name"])
    known = (values["sha256"], values["vocab"], values["classes"], values["words"])
    return FileTask((folder / values["data"]).absolute(), *known, stored=values["data"])


def catalogue() -> list[Task]:
    """Return one task of each kind, for `csprop tasks`."""
    return [get(name) for names in KINDS.values() for name in names]
