"""Write events.jsonl: logins to an account, and in which state each sequence of events leaves it.

Three failures in a row lock the account until a timeout. Of 800 rows 8 have a wrong label, as if
somebody had mistyped them; `csprop learn examples/events.jsonl` finds the machine and the eight rows.
"""

import json
import random
from pathlib import Path

EVENTS = ("ok", "fail", "logout", "timeout")
ROWS, WRONG, LONGEST = 800, 8, 12


def state_after(events: list[str]) -> str:
    """What the account is in the end: in, out or locked."""
    inside, failures = False, 0
    for event in events:
        if event == "timeout":
            inside, failures = False, 0
        elif failures < 3 and not inside:
            inside = event == "ok"
            failures = failures + 1 if event == "fail" else 0 if inside else failures
        elif inside and event == "logout":
            inside = False
    return "in" if inside else "locked" if failures == 3 else "out"


def rows() -> list[dict[str, str]]:
    draw = random.Random(13)
    made = []
    for _ in range(ROWS):
        events = draw.choices(EVENTS, weights=(2, 4, 1, 1), k=draw.randint(1, LONGEST))
        made.append({"sequence": " ".join(events), "label": state_after(events)})
    for row in draw.sample(made, WRONG):
        row["label"] = draw.choice([each for each in ("in", "out", "locked") if each != row["label"]])
    return made


if __name__ == "__main__":
    content = "".join(json.dumps(row) + "\n" for row in rows())
    Path(__file__).with_name("events.jsonl").write_text(content)
