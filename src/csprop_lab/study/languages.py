"""Languages whose machines are known, and rows drawn from them, some of them labelled wrongly.

The seeds were fixed before anything was learned from the rows; changing a draw changes every language
or row that comes after it.

>>> door = protocols()["door"]
>>> said = door.run([door.vocab.index(word) for word in ("open", "lock", "close", "lock")])
>>> [door.classes[each] for each in said]  # an open door cannot be locked
['open', 'open', 'closed', 'locked']
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from csprop import Automaton
from csprop.automata.machine import Machine
from csprop.automata.walk import Oracle
from csprop.tasks.tomita import GRAMMARS, Tomita
from csprop_lab.study.texts import read_numbers

SEED = 2026
LETTERS, NO_YES = ("a", "b", "c"), ("no", "yes")
LONGEST = 16
"""The longest rows to learn from; all lengths from 1 on are equally likely."""
FRESH, FRESH_LENGTHS = 2000, (17, 64)
"""The number of rows to test with, and their shortest and longest."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Rows of a language, with one label for each."""

    tokens: list[NDArray[np.int64]]
    labels: NDArray[np.int64]
    """As given, some of them wrong."""
    truth: NDArray[np.int64]

    def named(self, language: Automaton) -> tuple[list[NDArray[np.int64]], list[str]]:
        """Return the tokens, and the names of the labels."""
        return self.tokens, [language.classes[label] for label in self.labels]


@cache
def languages() -> dict[str, Automaton]:
    """All languages by name: Tomita's, random machines, cascades and protocols, all minimal."""
    return tomita() | random_machines() | cascades() | protocols()


def tomita() -> dict[str, Automaton]:
    """Tomita's seven grammars."""
    tasks = [Tomita(number) for number in range(1, len(GRAMMARS) + 1)]
    return {
        task.name: Automaton.from_machine(task.machine.minimal(), task.vocab, task.classes)
        for task in tasks
    }


@cache
def random_machines(count: int = 30) -> dict[str, Automaton]:
    """Draw random machines of 3 to 8 states with 2 or 3 letters until enough of them are minimal.

    A name has the number of states and of letters: `random-0-6x3`.
    """
    lots = np.random.default_rng(SEED)
    found: dict[str, Automaton] = {}
    while len(found) < count:
        states, letters = int(lots.integers(3, 9)), int(lots.integers(2, 4))
        following, outputs = lots.integers(0, states, (states, letters)), lots.integers(0, 2, states)
        transitions = tuple(map(tuple, following.tolist()))
        machine = Machine(transitions=transitions, outputs=tuple(outputs.tolist())).minimal()
        if len(machine) == states:
            name = f"random-{len(found)}-{states}x{letters}"
            found[name] = Automaton.from_machine(machine, LETTERS[:letters], NO_YES)
    return found


@cache
def cascades(count: int = 10) -> dict[str, Automaton]:
    """Machines of two layers: what a letter does to the second depends on the state of the first.

    A letter permutes the 2 or 3 states of a layer, or sends them all to one. Those that have at least 4
    states when they are minimal are kept, and named as the random machines are.
    """
    lots = np.random.default_rng(SEED + 1)
    found: dict[str, Automaton] = {}
    while len(found) < count:
        letters, low, high = (int(lots.integers(2, 4)) for _ in range(3))
        machine = _cascade(lots, letters, low, high)
        if len(machine) >= 4:
            name = f"cascade-{len(found)}-{len(machine)}x{letters}"
            found[name] = Automaton.from_machine(machine, LETTERS[:letters], NO_YES)
    return found


def _cascade(lots: np.random.Generator, letters: int, low: int, high: int) -> Machine:
    def action(states: int) -> NDArray[np.int64]:
        return (
            lots.permutation(states) if lots.random() < 0.5 else np.full(states, lots.integers(states))
        )

    first = [action(low) for _ in range(letters)]
    second = [[action(high) for _ in range(letters)] for _ in range(low)]
    for letter in range(letters):
        if lots.random() < 0.3:
            first[letter] = np.arange(low)
    outputs = lots.integers(0, 2, (low, high))
    oracle = Oracle(
        letters,
        (0, 0),
        lambda at, letter: (int(first[letter][at[0]]), int(second[at[0]][letter][at[1]])),
        lambda at: int(outputs[at]),
    )
    return Machine.explore(oracle).minimal()


def protocols() -> dict[str, Automaton]:
    """Events with words: a door, a login, a vending machine, a handshake, two locks.

    A door can be locked when it is closed. Three failures lock a user out, until a time-out. The price
    is fifteen, and at most twenty are held. A handshake ignores what comes out of turn, and `rst` ends
    it. Two locks are bad once both were held at once, until a reset.
    """
    return {name: Automaton.from_json(each) for name, each in read_numbers("events.json").items()}


def draw(language: Automaton, rows: int, wrong: float, seed: int) -> Drawn:
    """Rows to learn from: lengths 1 to 16, all tokens equally likely, the label of the whole."""
    lots = np.random.default_rng([SEED, seed])
    lengths = lots.integers(1, LONGEST + 1, rows)
    tokens = [lots.integers(0, language.symbols, length) for length in lengths]
    truth = np.array([language.final(each) for each in tokens])
    labels, classes = truth.copy(), len(language.classes)
    spoiled = lots.permutation(rows)[: round(wrong * rows)]
    labels[spoiled] = (labels[spoiled] + lots.integers(1, classes, len(spoiled))) % classes
    return Drawn(tokens, labels, truth)


def fresh(language: Automaton, seed: int) -> Drawn:
    """Longer rows to test with, labelled right.

    The tokens of the first half are equally likely. In some languages nearly all such rows have one
    class, so a row of the other half is drawn from all rows of a class, which is drawn first.
    """
    lots = np.random.default_rng([SEED, seed, FRESH])
    shortest, longest = FRESH_LENGTHS
    lengths = lots.integers(shortest, longest + 1, FRESH).tolist()
    ways = _ways(language, longest)
    tokens = [lots.integers(0, language.symbols, length) for length in lengths[: FRESH // 2]]
    for length in lengths[FRESH // 2 :]:
        possible = np.flatnonzero(ways[length, :, language.start])
        tokens.append(_of_class(language, ways[:, lots.choice(possible)], length, lots))
    truth = np.array([language.final(each) for each in tokens])
    return Drawn(tokens, truth, truth)


def _ways(language: Automaton, longest: int) -> NDArray[np.float64]:
    """The share of continuations that lead from a state to a class, (length + 1, classes, states)."""
    following = np.array(language.transitions)  # (states, symbols)
    outputs = np.array([-1 if each is None else each for each in language.outputs])
    ways = [np.equal(outputs, np.arange(len(language.classes))[:, None]).astype(float)]
    for _ in range(longest):
        ways.append(ways[-1][:, following].mean(axis=2))
    return np.array(ways)


def _of_class(
    language: Automaton, ways: NDArray[np.float64], length: int, lots: np.random.Generator
) -> NDArray[np.int64]:
    """A row that ends in a class, all such rows being equally likely."""
    tokens, state = np.empty(length, np.int64), language.start
    for place, lot in enumerate(lots.random(length).tolist()):
        following = language.transitions[state]
        chances = np.cumsum(ways[length - place - 1, list(following)])
        tokens[place] = np.searchsorted(chances, lot * chances[-1], side="right")
        state = following[tokens[place]]
    return tokens
