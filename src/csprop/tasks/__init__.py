"""What a model learns: built-in tasks with a known truth, and the user's own data."""

import re
from pathlib import Path
from typing import Any

from csprop.errors import InputError
from csprop.tasks.base import Examples, Task
from csprop.tasks.cycle import CycleNav
from csprop.tasks.evenpairs import EvenPairs
from csprop.tasks.file import SUFFIXES, FileTask, from_file
from csprop.tasks.flipflop import FlipFlop
from csprop.tasks.group import GROUPS, Group
from csprop.tasks.modular import Modular
from csprop.tasks.parenthesis import Parenthesis
from csprop.tasks.parity import Parity
from csprop.tasks.reset import ModularReset

__all__ = [
    "Examples",
    "FileTask",
    "Task",
    "catalogue",
    "from_description",
    "from_file",
    "get",
    "resolve",
]

SINGLE: tuple[type[Task], ...] = (Parity, Parenthesis, CycleNav, FlipFlop, EvenPairs)
"""Tasks without a parameter."""


def get(name: str) -> Task:
    """A task by its name: that of a task in `SINGLE`, modK, modK-residue, modK-reset, group-NAME or
    group-NAME-all."""
    for task in SINGLE:
        if name == task.name:
            return task()
    if match := re.fullmatch(r"mod(\d{1,9})(-residue|-reset)?", name):
        modulus, kind = int(match[1]), match[2]
        return ModularReset(modulus) if kind == "-reset" else Modular(modulus, kind == "-residue")
    if match := re.fullmatch(r"group-(\w+)(-all)?", name):
        return Group(match[1], every=bool(match[2]))
    raise InputError(
        f"there is no task {name!r}: write {', '.join(task.name for task in SINGLE)}, modK, "
        "modK-residue or modK-reset (K = 2, 3, …), group-NAME or group-NAME-all "
        f"(NAME = {', '.join(GROUPS)}), or give your own data with --data FILE"
    )


def resolve(task: str | Path | Task) -> Task:
    """A task by its name, by its data file, or as it is.

    Raises:
        InputError: there is no such task, or it is one's own with the name of another.
    """
    if isinstance(task, Path) or (isinstance(task, str) and Path(task).suffix in SUFFIXES):
        return from_file(task)
    if isinstance(task, str):
        return get(task)
    if not isinstance(task, Task):
        raise InputError(f"{task!r} is no task: give a name such as 'parity', a data file, or a Task")
    if task.oracle is not None and _is_taken(task):
        raise InputError(
            f"{task.name!r} is the name of a task that comes with csprop: give yours another name"
        )
    return task


def _is_taken(task: Task) -> bool:
    """Whether a task has the name of one that comes with csprop, and is another."""
    try:
        known = get(task.name)
    except InputError:
        return False
    same = (type(known), known.vocab, known.classes) == (type(task), task.vocab, task.classes)
    return not same


def from_description(values: dict[str, Any]) -> Task:
    """The task that `Task.describe` described, unless it is one's own, which csprop has no name for."""
    if "data" not in values:
        return get(values["name"])
    path = Path(values["data"])
    return FileTask(path, values["sha256"], values["vocab"], values["classes"], values["words"])


def catalogue() -> list[Task]:
    """One of each kind, to show."""
    counting = ("parity", "mod3", "mod3-residue", "mod3-reset", "cycle-nav")
    others = ("flip-flop", "even-pairs", "parenthesis")
    return [get(name) for name in (*counting, *others, *(f"group-{group}" for group in GROUPS))]
