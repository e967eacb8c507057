"""`csprop tasks`: list the built-in tasks."""

from dataclasses import dataclass
from typing import Any

from csprop.cli import common

MORE = [
    ("modK, modK-residue, modK-reset", "any K from 2 to 10000"),
    ("tomita-N, nested-N", "any N from 1 to 7"),
    ("flip-flop-language-P", "P percent of the tokens are to be ignored"),
    ("group-Cn", "a cyclic group, for any n from 2 to 1000"),
    ("group-NAME-all", "every element of the group is a token"),
    ("group-NAME-K", "K of its elements are, evenly spaced"),
]
"""Names with a number, besides the names in the list."""


@dataclass(frozen=True, kw_only=True)
class Args(common.Arguments):
    """List the built-in tasks.

    Examples:
        csprop tasks
        csprop train mod3
        csprop learn tomita-4
    """


def run(args: Args) -> int:
    from csprop.tasks import KINDS, catalogue, get

    if args.json:
        listed = [
            {
                "name": task.name,
                "question": task.description,
                "vocabulary": list(task.vocab),
                "classes": list(task.classes),
            }
            for task in catalogue()
        ]
        common.show_json({"tasks": listed})
        return 0
    print("To begin with: csprop train parity")
    for title, names in KINDS.items():
        found = [get(name) for name in names]
        print(f"\n{title}:")
        common.show_columns([(_marked(task), task.description) for task in found])
    print("\nA task with a * takes counting; its preset is counter.")
    print("\nMore of the same:")
    common.show_columns(MORE)
    print("\nFor your own data: csprop learn FILE, or csprop train --data FILE")
    return 0


def _marked(task: Any) -> str:
    return f"{task.name} *" if task.counting is not None else task.name
