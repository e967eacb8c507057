"""The study in one short table: what the README shows."""

from csprop.study.length import accuracies
from csprop.study.main import SAID
from csprop.study.table import TASKS, Rows, exact, markdown, percent, reached


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
