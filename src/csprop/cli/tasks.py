"""`csprop tasks`: what there is to learn."""

from dataclasses import dataclass

from csprop.cli import common


@dataclass(frozen=True, kw_only=True)
class Args:
    """List the tasks."""

    json: common.Flag = False
    """One JSON document on stdout."""


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
            *(" ".join(task[k]) for k in ("vocabulary", "classes")),
        ]
        for task in tasks
    ]
    common.show_table(["task", "question", "tokens", "classes"], rows)
    print("modK and modK-residue take any K from 2 on.")
    print("Your own data: csprop train --data FILE (.jsonl, .csv or .tsv)")
    return 0
