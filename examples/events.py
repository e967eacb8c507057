"""Print events.jsonl, which `csprop example events.jsonl` writes: logins to an account.

The label of a sequence of events is the state in which it leaves the account: in, out or locked.
Three failures in a row lock the account until a timeout. Of 800 rows 8 have a wrong label, as if
somebody had mistyped them; `csprop learn events.jsonl` finds the machine and the eight rows.
"""

import json
import random

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


def text() -> str:
    """The content of the file."""
    return "".join(json.dumps(row) + "\n" for row in rows())


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
    print(text(), end="")
