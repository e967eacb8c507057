"""What the README and the guides show of the results, and where in them it stands."""

import re
from collections.abc import Mapping
from typing import Any

from csprop.study.length import accuracies
from csprop.study.main import SAID
from csprop.study.table import TASKS, Rows, exact, markdown, percent, reached

BLOCK = re.compile(r"(<!-- results: (\S+) -->)(\n?)(.*?)\n?(<!-- end -->)", re.DOTALL)
"""A mark, its name, and what stands between it and the next: lines, or words within a line."""


def filled(text: str, made: Mapping[str, str]) -> str:
    """The text with each block as the results have it."""
    return BLOCK.sub(lambda found: f"{found[1]}{found[3]}{made[found[2]]}{found[3]}{found[5]}", text)


def summary(main: Rows) -> str:
    """The printed model beside the rotor, on the disjoint split."""
    headings = [
        "task",
        "the paper: accuracy, epochs",
        "printed model, seeds right on all 65,536 inputs",
        "… at length 17 (parenthesis 18), accuracy",
        "`rotor`, seeds right on all 65,536",
        "epochs to 100%, most",
        "locked: proven at every length",
    ]
    lines = []
    for task in TASKS:
        printed, rotor = (main[task, preset, "disjoint"] for preset in ("paper", "rotor"))
        longer = printed[0]["job"]["test_lengths"][1]
        locked = [row["locked"]["proven"] for row in rotor if "locked" in row]
        lines.append(
            [
                task,
                f"100%, {SAID[task]}" if SAID[task] else "–",
                f"{exact(printed).count(0)} of {len(printed)}",
                percent(accuracies(printed, "paper")[longer]),
                f"{exact(rotor).count(0)} of {len(rotor)}",
                f"{max(reached(rotor))}" if reached(rotor) else "never",
                f"{sum(locked)} of {len(rotor)}" if locked else "not regular",
            ]
        )
    return markdown(headings, lines)


def drift(length: Rows) -> str:
    """The rotors at the longest length, as trained and locked."""
    tasks = [task for task, model in length if model == "locked rotor"]
    trained, locked = (
        {task: accuracies(length[task, model], model) for task in tasks}
        for model in ("rotor", "locked rotor")
    )
    longest = max(trained[tasks[0]])
    shares = ", ".join(f"{task} {percent(trained[task][longest])}" for task in tasks)
    worst = percent(min(locked[task][longest] for task in tasks))
    return f"at length {longest:,} they have right, over all seeds: {shares}; locked, {worst} of each"


def caption(document: dict[str, Any]) -> str:
    """Of the figure of docs/exact.md."""
    printed = document["printed"]
    return (
        f"{printed['epochs']} epochs and is right on {percent(printed['accuracy'])} of all "
        f"{printed['count']:,} inputs of length 16"
    )


def transcript(lines: list[str], parts: tuple[str, ...] = ()) -> str:
    """What a command printed, as Markdown's code; given parts, the first line and theirs."""
    if parts:
        lines = [lines[0], "…", *(line for line in lines if line.startswith(parts))]
    return "\n".join(f"    {line}" if line else "" for line in ["", *lines, ""])
