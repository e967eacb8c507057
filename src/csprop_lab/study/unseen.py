"""Tasks that nothing was tuned on: machines of five kinds, drawn with a seed that was fixed first.

Tokens are drawn uniformly, and a layer learns the class after every token. A machine is kept as it
comes, unless it has fewer than 4 or more than 40 states, or one class is the answer to nearly
everything.

    automaton   a random machine
    group       the product of random permutations: the class is where two points go
    reset       each token permutes the states, or sends them all to one
    product     two counters modulo small numbers, one of which moves as the other one allows; a random
                class for each pair
    nesting     brackets, nested to a bounded depth; what does not fit is ignored; the class is the
                innermost open bracket
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from math import prod

import numpy as np

from csprop import Automaton
from csprop.automata.machine import Machine
from csprop.automata.walk import Oracle
from csprop.tasks.machine import MachineTask

SEED, EACH = 31, 4
SMALLEST, LARGEST = 4, 40
"""States of a machine that is kept."""
COMMON = 0.7
"""The largest share of a class after long random inputs."""
Lots = np.random.Generator


@cache
def unseen_tasks() -> dict[str, MachineTask]:
    """Return all tasks by name: the kind, its number, and the numbers of states and tokens."""
    kinds = (_automaton, _group, _reset, _product, _nesting)
    return {task.name: task for number, kind in enumerate(kinds) for task in _draw(kind, SEED + number)}


def _draw(kind: Callable[[Lots], Oracle], seed: int) -> Iterator[MachineTask]:
    lots, found = np.random.default_rng(seed), 0
    for _ in count():
        machine = Machine.explore(kind(lots)).minimal()
        if found == EACH:
            return
        if SMALLEST <= len(machine) <= LARGEST and _balanced(machine):
            found += 1
            name = f"{kind.__name__[1:]}-{found}-{len(machine)}x{machine.symbols}"
            yield MachineTask(_named(machine), name)


def _named(machine: Machine) -> Automaton:
    """Return the machine with letters for tokens, and numbers for the classes that occur."""
    answers = sorted({answer for answer in machine.outputs if answer is not None})
    outputs = tuple(None if each is None else answers.index(each) for each in machine.outputs)
    small = Machine(transitions=machine.transitions, outputs=outputs, start=machine.start)
    classes = [str(number) for number in range(len(answers))]
    return Automaton.from_machine(small, "abcdefgh"[: machine.symbols], classes)


def _balanced(machine: Machine) -> bool:
    """Return True if no class is the answer to nearly all long random inputs."""
    chances = np.zeros(len(machine))
    chances[machine.start] = 1
    total, following = np.zeros(len(machine)), np.array(machine.transitions)
    for _ in range(200):
        after = np.zeros(len(machine))
        np.add.at(after, following, chances[:, None] / machine.symbols)
        chances, total = after, total + after / 200
    answers = np.array([-1 if each is None else each for each in machine.outputs])
    shares = [total[answers == each].sum() for each in set(answers.tolist())]
    return max(shares) <= COMMON


def _automaton(lots: Lots) -> Oracle:
    states, letters = int(lots.integers(5, 13)), int(lots.integers(2, 5))
    following = lots.integers(0, states, (states, letters))
    answers = lots.integers(0, lots.integers(2, 4), states)
    return _table(following, answers)


def _group(lots: Lots) -> Oracle:
    points, letters = int(lots.integers(4, 8)), int(lots.integers(2, 4))
    moves = [tuple(lots.permutation(points).tolist()) for _ in range(letters)]
    start = tuple(range(points))
    return Oracle(
        letters,
        start,
        lambda state, token: tuple(state[each] for each in moves[token]),
        lambda state: state.index(0) * points + state.index(1),
    )


def _reset(lots: Lots) -> Oracle:
    states, letters = int(lots.integers(4, 9)), int(lots.integers(3, 6))
    columns = [
        lots.permutation(states) if lots.random() < 0.7 else np.full(states, lots.integers(states))
        for _ in range(letters)
    ]
    return _table(np.stack(columns, axis=1), lots.integers(0, 3, states))


def _product(lots: Lots) -> Oracle:
    sizes, letters = lots.integers(2, 6, 2).tolist(), int(lots.integers(2, 5))
    adds = lots.integers(0, sizes[0], letters)
    moves = lots.integers(0, sizes[1], (letters, sizes[0]))
    answers = lots.integers(0, 3, prod(sizes)).reshape(sizes)
    return Oracle(
        letters,
        (0, 0),
        lambda at, token: (
            int(at[0] + adds[token]) % sizes[0],
            int(at[1] + moves[token, at[0]]) % sizes[1],
        ),
        lambda at: int(answers[at]),
    )


def _nesting(lots: Lots) -> Oracle:
    kinds, depth = int(lots.integers(1, 4)), int(lots.integers(2, 6))

    def step(stack: tuple[int, ...], token: int) -> tuple[int, ...]:
        kind, closes = divmod(token, 2)
        if not closes:
            return (*stack, kind) if len(stack) < depth else stack
        return stack[:-1] if stack and stack[-1] == kind else stack

    return Oracle(2 * kinds, (), step, lambda stack: stack[-1] + 1 if stack else 0)


def _table(following: np.ndarray, answers: np.ndarray) -> Oracle:
    return Oracle(
        following.shape[1],
        0,
        lambda state, token: int(following[state, token]),
        lambda state: int(answers[state]),
    )
