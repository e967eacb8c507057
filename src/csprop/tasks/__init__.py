"""What a model learns: built-in tasks with a known truth, and the user's own data."""

import re

from csprop.errors import InputError
from csprop.tasks.base import Examples, Task
from csprop.tasks.file import FileTask, from_file
from csprop.tasks.modular import Modular
from csprop.tasks.parenthesis import Parenthesis
from csprop.tasks.parity import Parity

__all__ = ["Examples", "FileTask", "Task", "catalogue", "from_file", "get"]


def get(name: str) -> Task:
    """A task by its name: parity, parenthesis, modK or modK-residue."""
    for task in (Parity, Parenthesis):
        if name == task.name:
            return task()
    if match := re.fullmatch(r"mod(\d{1,9})(-residue)?", name):
        return Modular(int(match[1]), residue=bool(match[2]))
    raise InputError(
        f"there is no task {name!r}: write parity, parenthesis, modK or modK-residue "
        "(K = 2, 3, …), or give your own data with --data FILE"
    )


def catalogue() -> list[Task]:
    """One of each kind, to show."""
    return [get(name) for name in ("parity", "mod3", "mod3-residue", "parenthesis")]
