"""Print door.csv, which `csprop example door.csv` writes: what was done to a door, and how it is left.

A door can be locked only where it is closed, and opened only where it is not locked. All labels are
right; `csprop learn door.csv` finds the machine of three states.
"""

import random

ACTIONS = ("open", "close", "lock", "unlock")
ROWS, LONGEST = 300, 10
MOVES = {
    ("closed", "open"): "open",
    ("open", "close"): "closed",
    ("closed", "lock"): "locked",
    ("locked", "unlock"): "closed",
}
"""What changes the door; all else leaves it as it is."""


def left(actions: list[str]) -> str:
    """How a closed door is left by some actions."""
    door = "closed"
    for action in actions:
        door = MOVES.get((door, action), door)
    return door


def text() -> str:
    """The content of the file."""
    draw = random.Random(5)
    lines = ["sequence,label"]
    for _ in range(ROWS):
        actions = draw.choices(ACTIONS, k=draw.randint(1, LONGEST))
        lines.append(f"{' '.join(actions)},{left(actions)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(text(), end="")
