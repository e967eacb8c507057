"""`csprop tasks`: list the built-in tasks."""

from collections.abc import Sequence
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

    tasks = catalogue()
    if args.json:
        listed = [
            {
                "name": task.name,
                "question": task.description,
                "vocabulary": list(task.vocab),
                "classes": list(task.classes),
            }
            for task in tasks
        ]
        common.show_json({"tasks": listed})
        return 0
    rows, more, kind = [], [], object
    for task in tasks:
        tokens, classes = _listed(task.vocab), _listed(task.classes)
        # A further question about the same tokens, with the same classes, gets a line, not a row.
        if rows and isinstance(task, kind) and rows[-1][2:] == [tokens, classes]:
            more.append(f"{task.name}: {task.description}")
        else:
            rows.append([task.name, task.description, tokens, classes])
            kind = type(task)
    common.show_table(["task", "question", "tokens", "classes"], rows)
    print("\n".join(more))
    counting = [task.name for task in tasks if task.counting is not None]
    common.show_text(f"Models that count, the preset counter, are for {', '.join(counting)}.")
    whole = [task.name for task in tasks if not task.total]
    common.show_text(f"No proof exists for {', '.join(whole)}.")
    print("modK, modK-residue and modK-reset take any K from 2 to 10000.")
    print("flip-flop-language-P, such as flip-flop-language-98: P percent are ignored.")
    print("group-NAME-all, such as group-S5-all: each element of the group is a token.")
    print("group-NAME-K, such as group-S5-32: K of its elements, evenly spaced, are.")
    print("group-Cn, such as group-C60: a cyclic group, with any n from 2 to 1000.")
    print("Your own data: csprop train --data FILE (.jsonl, .csv or .tsv)")
    return 0


def _listed(names: Sequence[str], most: int = 5) -> str:
    """All names if they are few, otherwise the first name and their number."""
    return f"{names[0]} … ({len(names)})" if len(names) > most else " ".join(names)
