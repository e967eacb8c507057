"""What a model learns: built-in tasks with a known truth, and the user's own data."""

import re

from csprop.errors import InputError
from csprop.tasks.base import Examples, Task
from csprop.tasks.cycle import CycleNav
from csprop.tasks.evenpairs import EvenPairs
from csprop.tasks.file import FileTask, from_file
from csprop.tasks.flipflop import FlipFlop
from csprop.tasks.group import GROUPS, Group
from csprop.tasks.modular import Modular
from csprop.tasks.parenthesis import Parenthesis
from csprop.tasks.parity import Parity
from csprop.tasks.reset import ModularReset

__all__ = ["Examples", "FileTask", "Task", "catalogue", "from_file", "get"]

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


def catalogue() -> list[Task]:
    """One of each kind, to show."""
    counting = ("parity", "mod3", "mod3-residue", "mod3-reset", "cycle-nav")
    others = ("flip-flop", "even-pairs", "parenthesis")
    return [get(name) for name in (*counting, *others, *(f"group-{group}" for group in GROUPS))]
