"""Example files that come with csprop; scripts in `examples/` of the repository made them."""

from pathlib import Path

from csprop.errors import InputError, did_you_mean

FOLDER = Path(__file__).parent / "assets"
EXAMPLES = {
    "events.jsonl": (
        "800 sequences of logins, of which eight have a wrong label",
        "learn {} --out runs/events",
    ),
    "door.csv": ("300 sequences of what was done to a door", "learn {} --out runs/door"),
    "brackets.jsonl": (
        "300 strings of brackets, with a label for every bracket",
        "learn {} --out runs/brackets",
    ),
    "machine.json": ("a turnstile as a state machine", "compile {} --out runs/turnstile"),
    "football.json": ("the group A5 as a machine of 60 states", "compile {} --out runs/football"),
}
"""The contents of each file, and a command that reads it."""


def example(name: str) -> Path:
    """Return the path of an example file that comes with csprop, such as "events.jsonl"."""
    if name not in EXAMPLES:
        hint = did_you_mean(name, EXAMPLES) or f"write {', '.join(EXAMPLES)}"
        raise InputError(f"there is no example {name!r}: {hint}")
    return FOLDER / name
