"""Print brackets.jsonl, which `csprop example brackets.jsonl` writes: strings of brackets.

Every bracket has a label, which tells what has been read so far: `balanced`, `open` if brackets have
to be closed, and `wrong` for ever once one was closed that was not open. No finite machine can do that
for all strings, because it takes counting; `csprop learn brackets.jsonl` finds a machine that counts.
"""

import json
import random

ROWS, LONGEST = 300, 20


def labels(brackets: str) -> list[str]:
    """What has been read after each bracket."""
    said, depth, wrong = [], 0, False
    for bracket in brackets:
        depth += 1 if bracket == "(" else -1
        wrong = wrong or depth < 0
        said.append("wrong" if wrong else "open" if depth else "balanced")
    return said


def string(draw: random.Random) -> str:
    """A string that is balanced up to some place; one in four then closes what is not open."""
    length, depth, brackets = draw.randint(1, LONGEST), 0, ""
    careless = draw.random() < 0.25
    while len(brackets) < length:
        opens = draw.random() < 0.5 or (depth <= 0 and not careless)
        depth += 1 if opens else -1
        brackets += "(" if opens else ")"
    return brackets


def text() -> str:
    """The content of the file."""
    draw = random.Random(7)
    rows = [string(draw) for _ in range(ROWS)]
    return "".join(json.dumps({"sequence": row, "label": labels(row)}) + "\n" for row in rows)


if __name__ == "__main__":
    print(text(), end="")
