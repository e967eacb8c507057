"""`csprop tasks`: list the built-in tasks."""

from dataclasses import dataclass

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
        names = {"name": "name", "question": "description", "vocabulary": "vocab", "classes": "classes"}
        tasks = [{key: getattr(task, name) for key, name in names.items()} for task in catalogue()]
        common.show_json({"tasks": tasks})
        return 0
    print("To begin with: csprop train parity")
    for title, names in KINDS.items():
        tasks = map(get, names)
        print(f"\n{title}:")
        common.show_columns(
            [(f"{each.name} *" if each.counting else each.name, each.description) for each in tasks]
        )
    print("\nA task with a * takes counting; its preset is counter.\n\nMore of the same:")
    common.show_columns(MORE)
    print("\nFor your own data: csprop learn FILE, or csprop train --data FILE")
    return 0
