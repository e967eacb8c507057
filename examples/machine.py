"""Print machine.json, which `csprop example machine.json` writes: a turnstile as a state machine.

A coin unlocks the turnstile, and a push goes through and locks it. `transitions` has a row for each
state, with the next state for each token; `answers` has the class of each state.
`csprop compile machine.json --out runs/turnstile` writes the machine into the weights of a model.
"""

from csprop import Automaton
from csprop.files import as_json


def text() -> str:
    """The content of the file."""
    turnstile = Automaton(
        vocab=("coin", "push"),
        classes=("locked", "unlocked"),
        transitions=((1, 0), (1, 0)),
        outputs=(0, 1),
        words=True,
    )
    return as_json(turnstile.to_json()).decode()


if __name__ == "__main__":
    print(text(), end="")
