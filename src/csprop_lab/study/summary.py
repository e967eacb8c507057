"""The blocks of results in the README and the guides: what they say, and where they stand."""

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from csprop.tasks import get
from csprop.training.scores import percent
from csprop_lab.study.length import accuracies
from csprop_lab.study.measure import Row
from csprop_lab.study.table import TASKS, Rows, exact, proven, reached
from csprop_lab.study.texts import markdown

BLOCK = re.compile(r"(<!-- results: (\S+) -->)(\n?)(.*?)\n?(<!-- end -->)", re.DOTALL)
"""A comment with a name, what the block holds (lines, or words within a line), a closing comment."""


def fill_blocks(text: str, made: Mapping[str, str]) -> str:
    """A text with the content of each block replaced by what was made for its name."""
    return BLOCK.sub(lambda block: f"{block[1]}{block[3]}{made[block[2]]}{block[3]}{block[5]}", text)


def task_table(main: Rows) -> str:
    """The README's table of the paper's tasks: the printed model beside ours, in plain words."""
    headings = ["task", "the paper's model as printed: length 16", "… 17 (brackets: 18)"]
    headings += ["csprop: length 16", "… proven at every length"]
    lines = []
    for task in TASKS:
        printed, ours = (main[task, preset, "disjoint"] for preset in ("paper", get(task).preset))
        longer = printed[0]["job"]["test_lengths"][1]
        lines.append([
            get(task).description, _every(printed), percent(accuracies(printed, "paper")[longer]),
            _every(ours), f"{proven(ours)} runs",
        ])  # fmt: skip
    return markdown(headings, lines)


def _every(rows: Sequence[Row]) -> str:
    """The median accuracy over all inputs of length 16."""
    return percent(statistics.median(1 - wrong / (1 << 16) for wrong in exact(rows)))


def proofs(rows: Rows) -> str:
    """Return the number of tasks that were proven with every seed, and the largest machines."""
    all_proven = [
        (task, max(row["locked"]["states"] for row in seeds))
        for (task,), seeds in rows.items()
        if all(row.get("locked", {}).get("proven") for row in seeds)
    ]
    (seeds,) = {len(each) for each in rows.values()}
    groups = [f"`{task}` with {states} states" for task, states in all_proven if states > 50]
    return (
        f"{len(all_proven)} of {len(rows)} tasks were proven with every one of {seeds} seeds, among "
        f"them the word problems {', '.join(groups[:-1])} and {groups[-1]}"
    )


def summary(main: Rows) -> str:
    """The guide's table of the paper's tasks: the printed, the released and our models."""
    headings = [
        "task", "the paper: accuracy, epochs", "printed model, seeds right on all 65,536 inputs",
        "… at length 17 (parenthesis 18), accuracy", "released model, seeds right on all 65,536",
        "… its angles rounded: proven", "our preset", "seeds right on all 65,536",
        "epochs to 100%, most", "locked: proven at every length",
    ]  # fmt: skip
    lines = []
    for task in TASKS:
        suits = get(task).preset
        presets = ("paper", "released", suits)
        printed, released, ours = (main[task, preset, "disjoint"] for preset in presets)
        epochs = get(task).paper_epochs
        longer = printed[0]["job"]["test_lengths"][1]
        lines.append([
            task, f"100%, {epochs}" if epochs else "–", f"{exact(printed).count(0)} of {len(printed)}",
            percent(accuracies(printed, "paper")[longer]),
            f"{exact(released).count(0)} of {len(released)}", proven(released), f"`{suits}`",
            f"{exact(ours).count(0)} of {len(ours)}",
            f"{max(reached(ours))}" if reached(ours) else "never", proven(ours),
        ])  # fmt: skip
    return markdown(headings, lines)


def drift(length: Rows) -> str:
    """Return the accuracy of rotors and of the counter at the longest length, trained and locked."""

    def far(task: str, model: str) -> float:
        return accuracies(length[task, model], model)[longest]

    tasks = [task for task, model in length if model == "locked rotor"]
    (counted,) = (task for task, model in length if model == "locked counter")
    longest = max(length[tasks[0], "rotor"][0]["job"]["test_lengths"])
    *most, last = [f"{percent(far(task, 'rotor'))} on {task}" for task in tasks]
    worst = percent(min(far(task, "locked rotor") for task in tasks))
    return (
        f"at length {longest:,} their mean accuracy over the seeds is {', '.join(most)} and {last}; "
        f"locked, it is {worst} on each. The counter's is "
        f"{percent(far(counted, 'counter'))} on {counted} as trained, and "
        f"{percent(far(counted, 'locked counter'))} locked"
    )


def caption(document: dict[str, Any]) -> str:
    """A part of the caption of the figure in docs/exact.md."""
    printed = document["printed"]
    return (
        f"{printed['epochs']} epochs and is right on {percent(printed['accuracy'])} of all "
        f"{printed['count']:,} inputs of length 16"
    )


def phases(document: dict[str, Any]) -> str:
    """A part of the caption of the figure in docs/paper.md."""
    turns = [
        f"{token!s} turns it by {turn:.4f} of a turn" for token, turn in enumerate(document["turns"])
    ]
    return f"seed {document['seed']}, where {' and '.join(turns)}"
