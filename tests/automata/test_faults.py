"""Planted faults: each is found, with a shortest counterexample, and none is called equal."""

import itertools
import random
from dataclasses import replace

from csprop.automata.comparison import compare_counting
from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.automata.walk import Difference
from tests.helpers.counters import LANGUAGES, brackets, plain, rebuilt, shortest_difference


def increment(machine: CounterMachine, dice: random.Random) -> CounterMachine:
    rows = [list(row) for row in machine.increments]
    row = dice.choice(rows)
    row[dice.randrange(len(row))] += dice.choice([-2, -1, 1, 2])
    return replace(machine, increments=tuple(map(tuple, rows)))


def transition(machine: CounterMachine, dice: random.Random) -> CounterMachine:
    rows = [list(row) for row in machine.control.transitions]
    row = dice.choice(rows)
    place = dice.randrange(len(row))
    row[place] = dice.choice([each for each in set(itertools.chain(*rows)) if each != row[place]])
    return replace(machine, control=replace(machine.control, transitions=tuple(map(tuple, rows))))


def view(machine: CounterMachine, dice: random.Random) -> CounterMachine:
    """One view is taken for another, after one token or after all."""
    here, there = dice.sample(range(machine.views), 2)
    tokens = [dice.randrange(machine.symbols)] if dice.random() < 0.5 else range(machine.symbols)
    rows = [list(row) for row in machine.control.transitions]
    for row, token in itertools.product(rows, tokens):
        row[token * machine.views + here] = row[token * machine.views + there]
    entered = set(itertools.chain(*rows))
    start = machine.control.start
    said = [o if i in entered or i == start else 0 for i, o in enumerate(machine.control.outputs)]
    control = Machine(transitions=tuple(map(tuple, rows)), outputs=tuple(said), start=start)
    return replace(machine, control=control)


def answer(machine: CounterMachine, dice: random.Random) -> CounterMachine:
    said = list(machine.control.outputs)
    place = dice.choice([i for i, each in enumerate(said) if each is not None])
    said[place] = (said[place] or 0) + dice.choice([1, 2])
    return replace(machine, control=replace(machine.control, outputs=tuple(said)))


def far_away(machine: CounterMachine, dice: random.Random) -> CounterMachine:
    """Right as long as the first count is below some number; there wrong, or in another state."""
    far = 41 if machine.counters == 1 and dice.random() < 0.2 else dice.randint(2, 8)
    lost = dice.choice([None, *set(itertools.chain(*machine.control.transitions))])
    return rebuilt(machine, machine.increments, far, lambda counts: counts, lost, far)


FAULTS = {"increment": increment, "transition": transition, "view": view, "answer": answer,
          "far away": far_away}  # fmt: skip


def test_many_faults_are_found_and_none_is_called_equal() -> None:
    dice, kinds = random.Random(1), dict.fromkeys(FAULTS, 0)
    while sum(kinds.values()) < 250:
        name, kind = dice.choice(list(LANGUAGES)), dice.choice(list(FAULTS))
        machine = LANGUAGES[name].machine
        faulty = FAULTS[kind](machine, dice)
        length = shortest_difference(machine, faulty, 130 if machine.counters == 1 else 26)
        if length is None:  # the change made no difference nearby
            continue
        found = compare_counting(machine, faulty)
        assert isinstance(found, Difference), (name, kind)
        assert len(found.tokens) == length
        assert plain(machine, found.tokens)[-1] == found.left
        assert plain(faulty, found.tokens)[-1] == found.right
        assert found.left != found.right
        kinds[kind] += 1
    assert min(kinds.values()) > 25


def test_right_up_to_depth_40_and_wrong_at_41() -> None:
    machine = brackets()
    bad = machine.control.transitions[machine.control.start][machine.views]  # after a closing one
    faulty = rebuilt(machine, machine.increments, 41, lambda counts: counts, bad, 41)
    assert compare_counting(machine, faulty) == Difference((0,) * 41 + (1,) * 41, 1, 0)
