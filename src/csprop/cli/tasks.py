"""`csprop tasks`: list the built-in tasks."""

from dataclasses import dataclass

from csprop.cli import common


@dataclass(frozen=True, kw_only=True)
class Args:
    """List the built-in tasks."""

    json: common.Flag = False
    """Print one JSON document on stdout."""


def parse(argv: list[str]) -> Args:
    return common.parse(Args, "tasks", argv)


def run(args: Args) -> int:
    from csprop.tasks import catalogue

    tasks = [
        {
            "name": task.name,
            "question": task.description,
            "vocabulary": list(task.vocab),
            "classes": list(task.classes),
        }
        for task in catalogue()
    ]
    if args.json:
        common.show_json({"tasks": tasks})
        return 0
    rows = [
        [
            str(task["name"]),
            str(task["question"]),
            *(_listed(task[k]) for k in ("vocabulary", "classes")),
        ]
        for task in tasks
    ]
    common.show_table(["task", "question", "tokens", "classes"], rows)
    print("modK, modK-residue and modK-reset take any K from 2 to 10000.")
    print("group-NAME-all, such as group-S5-all: each permutation of the group is a token.")
    print("Your own data: csprop train --data FILE (.jsonl, .csv or .tsv)")
    return 0


def _listed(names: list[str], most: int = 5) -> str:
    """All names if they are few, otherwise the first name and their number."""
    return f"{names[0]} … ({len(names)})" if len(names) > most else " ".join(names)
