"""The one walk: what it reaches, in which order, what it refuses; two machines beside each other."""

import itertools
import math
from collections import deque
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.automata.walk import (
    OUTSIDE,
    Agreement,
    Difference,
    Endless,
    Oracle,
    Walk,
    compare,
    every_input,
    moves,
)
from csprop.errors import InputError
from tests.helpers.counters import shortest_difference
from tests.helpers.machines import automata

NAMES = ("0", "1", "2", "3")


def counting(modulus: int, label: Any = lambda state: state) -> Oracle:
    return Oracle(2, 0, lambda state, token: (state + token) % modulus, label)


def shortest(one: Machine, two: Machine) -> int | None:
    """Return the length of the shortest input that two machines answer differently."""
    without = (CounterMachine(increments=((),) * m.symbols, window=0, control=m) for m in (one, two))
    return shortest_difference(*without, most=100)


@settings(max_examples=300)
@given(data=st.data())
def test_the_difference_is_a_shortest_one(data: st.DataObject) -> None:
    one = data.draw(automata())
    two = data.draw(automata(tokens=one.symbols))
    found, length = compare(one.oracle, two.oracle), shortest(one, two)
    if length is None:
        assert isinstance(found, Agreement)
        assert one.difference(two) is None
        return
    assert isinstance(found, Difference)
    assert len(found.tokens) == length
    assert (one.final(found.tokens), two.final(found.tokens)) == (found.left, found.right)
    assert found.left != found.right
    minimal = one.difference(two)
    assert minimal is not None
    assert len(minimal.tokens) == length
    with pytest.raises(InputError, match="same tokens"):
        one.difference(data.draw(automata(NAMES, tokens=one.symbols + 1)))


@settings(max_examples=200)
@given(machine=automata())
def test_the_pairs_of_an_agreement_are_an_invariant(machine: Machine) -> None:
    other = machine.minimal()
    found = compare(machine.oracle, other.oracle)
    assert isinstance(found, Agreement)
    pairs = set(found.pairs)
    assert len(pairs) == len(found.pairs)
    assert found.pairs[0] == (machine.start, other.start)
    for a, b in pairs:
        for token in range(machine.symbols):
            pair = (machine.transitions[a][token], other.transitions[b][token])
            assert pair in pairs
            assert machine.outputs[pair[0]] == other.outputs[pair[1]]


@settings(max_examples=200)
@given(machine=automata(), batch=st.integers(1, 5))
def test_a_walk_reaches_everything_by_a_shortest_way(machine: Machine, batch: int) -> None:
    oracle = machine.oracle
    walk = Walk(oracle.start).run(lambda states: [moves(oracle, each) for each in states], None, batch)
    distance = {machine.start: 0}
    queue = deque(distance)
    while queue:
        state = queue.popleft()
        for there in machine.transitions[state]:
            if there not in distance:
                distance[there] = distance[state] + 1
                queue.append(there)
    assert set(walk.order) == set(distance)
    assert [walk.order[number] for number in range(len(walk.order))] == list(walk.numbers)
    for state in walk.order:
        way, here = walk.way(state), machine.start
        for token in way:
            here = machine.transitions[here][token]
        assert (here, len(way)) == (state, distance[state])


def test_two_infinite_machines_differ_where_they_do() -> None:
    """One counts for ever, and the other is right up to 9."""
    counts = Oracle(2, 0, lambda state, token: state + token, lambda state: int(state > 9))
    never = Oracle(2, 0, lambda state, token: 0, lambda state: 0)
    assert compare(counts, never) == Difference((1,) * 10, 1, 0)


def test_what_neither_ends_nor_differs_is_refused() -> None:
    counts = Oracle(1, 0, lambda state, token: state + 1, lambda state: 0)
    with pytest.raises(Endless, match="more than 1,000 states can be reached"):
        compare(counts, counts, most=1000)
    with pytest.raises(Endless, match="more than 1,000 states"):
        Machine.explore(counts, most=1000)


def test_a_bound_is_met_exactly() -> None:
    assert len(Machine.explore(counting(5), most=5)) == 5
    with pytest.raises(Endless):
        Machine.explore(counting(6), most=5)


@pytest.mark.parametrize(
    ("state", "complaint"),
    [
        ([1], "cannot be hashed: use a number, a string or a tuple"),
        ({1: 2}, "cannot be hashed"),
        *(
            (each, "equal itself")
            for each in (math.nan, (1, math.nan), torch.zeros(2), torch.zeros(1) / 0)
        ),
    ],
)
def test_a_state_that_no_walk_can_recognise_is_refused(state: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        Machine.explore(Oracle(1, 0, lambda *_: state, lambda _: 0))
    with pytest.raises(InputError, match=complaint):
        Machine.explore(Oracle(1, state, lambda *_: 0, lambda _: 0))


def test_states_that_grow_are_bounded_by_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack that only grows would take gigabytes long before there are 65,536 of them."""
    monkeypatch.setattr("csprop.automata.walk.MOST_BYTES", 1 << 20)
    stack = Oracle(1, (), lambda state, token: (*state, 1), lambda state: 0)
    with pytest.raises(Endless, match=r"more than \d{2,3} states can be reached"):
        Machine.explore(stack)
    assert len(Machine.explore(counting(1000))) == 1000


def test_a_machine_begins_in_one_of_its_states_and_is_reset_to_its_start() -> None:
    machine = Machine(transitions=((0, 1), (1, 2), (2, 0)), outputs=(0, 1, 2), start=1)
    rows = np.array([[1, 1, 0, 1], [0, 1, 1, 1]])
    reset = np.array([[False, False, True, False], [False, False, False, True]])
    assert machine.visit(rows, [0, 2], reset).tolist() == [[1, 2, 1, 2], [2, 0, 1, 2]]
    assert machine.visit(rows, [0, 2]).tolist() == [[1, 2, 2, 0], [2, 0, 1, 2]]
    every = [machine.final(row) for row in itertools.product((0, 1), repeat=3)]
    assert machine.every(3).tolist() == every
    for first in ([0, 3], [-1, 0], 5):
        with pytest.raises(InputError, match="first must hold states, from 0 to 2"):
            machine.visit(np.ones((2, 40), int), first)


@pytest.mark.parametrize("reset", [np.zeros((2, 3), np.int64), np.zeros((1, 3), np.bool_)], ids=str)
def test_a_reset_of_another_type_or_shape_is_refused(reset: Any) -> None:
    machine = Machine(transitions=((0, 1), (1, 0)), outputs=(0, 1), start=0)
    with pytest.raises(InputError, match="reset must be bool of shape"):
        machine.visit([[0, 1, 1], [1, 0, 1]], reset=reset)


def test_inputs_left_out_are_not_walked() -> None:
    bounded = Oracle(2, 0, lambda s, t: s + 1 if t else max(0, s - 1), lambda s: s % 2).within(
        lambda state: state <= 3
    )
    assert moves(bounded, 3) == [(0, 2)]
    assert bounded.step(3, 1) is OUTSIDE
    found = compare(counting_to_three().oracle, bounded)
    assert isinstance(found, Agreement)
    assert {b for _, b in found.pairs} == {0, 1, 2, 3}


def counting_to_three() -> Machine:
    """Up by 1, down by 0, right up to 3 and wrong beyond."""
    rows = tuple((max(0, s - 1), min(3, s + 1)) for s in range(4))
    return Machine(transitions=rows, outputs=(0, 1, 0, 1))


def test_every_input_is_a_domain_of_one_state() -> None:
    assert moves(every_input(3), every_input(3).start) == [(0, 0), (1, 0), (2, 0)]
