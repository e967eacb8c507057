"""Print football.json, which `csprop example football.json` writes: the group A5 as a state machine.

The states are the 60 even permutations of five elements, and the tokens are a = (0 1)(2 3) and
b = (0 1 2 3 4). With an edge for each move, they are the corners and seams of a football.
`csprop compile football.json --out runs/football` writes the machine into the weights of a model.
"""

from csprop import Automaton
from csprop.automata.machine import Machine
from csprop.automata.walk import Oracle
from csprop.files import as_json
from csprop.tasks.group import GROUPS, after, cycles, elements


def text() -> str:
    """The content of the file."""
    group, tokens = elements(GROUPS["A5"]), [cycles(each, 5) for each in ("(01)(23)", "(01234)")]
    oracle = Oracle(2, group[0], lambda state, token: after(tokens[token], state), group.index)
    names = ["".join(map(str, each)) for each in group]
    return as_json(Automaton.from_machine(Machine.explore(oracle), "ab", names).to_json()).decode()


if __name__ == "__main__":
    print(text(), end="")
