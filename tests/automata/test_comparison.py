"""The comparison of machines that count: proofs that can be checked, and shortest counterexamples."""

import itertools
import math
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csprop.automata import comparison
from csprop.automata.comparison import Invariant, Undecided, compare_counting
from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.automata.walk import Difference
from csprop.errors import InputError
from tests.automata.test_counting import counter_machines
from tests.helpers.counters import (
    LANGUAGES,
    brackets,
    in_order,
    plain,
    rebuilt,
    shortest_difference,
    widened,
)
from tests.helpers.flaw import flaw

# Proofs.


def proven(one: CounterMachine, two: CounterMachine) -> Invariant:
    found = compare_counting(one, two)
    assert isinstance(found, Invariant), found
    assert flaw(one, two, found) is None
    return found


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_machine_is_proven_equal_to_other_writings_of_it(name: str) -> None:
    machine = LANGUAGES[name].machine
    for other in (machine, scaled(machine, -2), widened(machine, 3), renamed(machine)):
        proven(machine, other)
        proven(other, machine)


def scaled(machine: CounterMachine, factor: int) -> CounterMachine:
    """Every counter times a number, seen through a window as wide as needed."""
    increments = tuple(tuple(factor * each for each in row) for row in machine.increments)
    return rebuilt(
        machine, increments, abs(factor), lambda counts: [math.trunc(each / factor) for each in counts]
    )


def renamed(machine: CounterMachine) -> CounterMachine:
    """Every state of the control twice, and shuffled."""
    dice, count = random.Random(0), len(machine.control)
    order = dice.sample(range(2 * count), 2 * count)
    rows: list[tuple[int, ...]] = [()] * (2 * count)
    said: list[int | None] = [None] * (2 * count)
    for copied, place in enumerate(order):
        row = machine.control.transitions[copied % count]
        rows[place] = tuple(order[there + count * dice.randint(0, 1)] for there in row)
        said[place] = machine.control.outputs[copied % count]
    control = Machine(transitions=tuple(rows), outputs=tuple(said), start=order[machine.control.start])
    return replace(machine, control=control)


def test_sums_of_counters_are_understood() -> None:
    """As many a's as b's and c's can be asked in many ways, of counters that depend on each other."""
    ways = [
        in_order(((1, 0), (-1, 1), (0, -1)), lambda counts: counts == (0, 0)),
        in_order(((1, 1), (-1, 0), (0, -1)), lambda counts: counts == (0, 0)),
        in_order(((2, 1), (-1, 0), (-1, -1)), lambda counts: counts == (0, 0)),
        in_order(((1, 2, 5), (-1, -1, 0), (0, -1, -5)), lambda counts: counts[0] == counts[1] == 0),
        in_order(((1, 0, 1), (-1, 1, 0), (0, -1, -1)), lambda counts: counts == (0, 0, 0)),
    ]
    for one, two in itertools.product(ways, repeat=2):
        proven(one, two)
    wrong = in_order(((1, 1), (-1, -1), (0, 0)), lambda counts: counts == (0, 0))
    for one in ways:
        found = compare_counting(one, wrong)
        assert isinstance(found, Difference)
        assert found.tokens == (0, 1, 2, 2)


@pytest.mark.parametrize("modulus", [2, 3, 6])
def test_a_control_may_know_the_remainder_of_a_count(modulus: int) -> None:
    """The control counts the depth modulo a number as well, which does not follow near zero alone."""
    machine = CounterMachine.explore(
        ((1,), (-1,)),
        0,
        lambda state, token, counts: (
            -1 if state < 0 or counts[0] < 0 else (state + 1 - 2 * token) % modulus
        ),
        lambda state, counts: int(state == 0 and counts[0] == 0),
    )
    found = proven(machine, brackets())
    assert found.ranges.periods == (modulus,)


@pytest.mark.parametrize("seed", range(12))
def test_a_control_may_do_anything_with_what_it_never_meets(seed: int) -> None:
    """It knows remainders and small counts, and goes anywhere if they contradict the counters."""
    dice = random.Random(seed)
    counters, tokens, states = dice.choice([1, 1, 2]), dice.randint(2, 3), dice.randint(2, 4)
    size = tokens * 3**counters
    control = Machine(
        transitions=tuple(tuple(dice.choices(range(states), k=size)) for _ in range(states)),
        outputs=tuple(dice.choices(range(2), k=states)),
    )
    added = [tuple(dice.choices(range(-2, 3), k=counters)) for _ in range(tokens)]
    machine = CounterMachine(increments=tuple(added), window=1, control=control)
    modulus, most = dice.choice([1, 2, 3]), dice.choice([0, 1, 3] if counters == 1 else [0, 1])
    anywhere: dict[Any, Any] = {}

    def step(state: Any, token: int, views: tuple[int, ...]) -> Any:
        place, rests, counts = state
        rests = [(rest + more) % modulus for rest, more in zip(rests, added[token], strict=True)]
        counts = [None if count is None else count + more
                  for count, more in zip(counts, added[token], strict=True)]  # fmt: skip
        for view, rest, count in zip(views, rests, counts, strict=True):
            wrong = count is not None and max(-1, min(count, 1)) != view
            wrong = wrong or (view == 0 and rest != 0)
            wrong = wrong or (count is not None and count % modulus != rest)
            if wrong and (state, token, views) not in anywhere:
                small = [None, *range(-most, most + 1)]
                anywhere[state, token, views] = (
                    dice.randrange(states),
                    tuple(dice.choices(range(modulus), k=counters)),
                    tuple(dice.choices(small, k=counters)),
                )
            if wrong:
                return anywhere[state, token, views]
        known = zip(views, counts, strict=True)
        counts = [0 if view == 0 else count for view, count in known]
        counts = [count if count is not None and abs(count) <= most else None for count in counts]
        symbol = token
        for view in views:
            symbol = 3 * symbol + view + 1
        return control.transitions[place][symbol], tuple(rests), tuple(counts)

    start = (0, (0,) * counters, (0,) * counters)
    other = CounterMachine.explore(
        machine.increments, start, step, lambda state, counts: control.outputs[state[0]] or 0
    )
    proven(machine, other)


def test_a_control_may_know_the_difference_of_two_counters() -> None:
    """A first token c adds 5 in one machine and nothing in the other; both remember whether it came."""

    def bracketed(offset: int) -> CounterMachine:
        def step(state: str, token: int, counts: tuple[int, ...]) -> str:
            if state == "bad" or (token == 2 and state != "start"):
                return "bad"
            state = {"start": "c" if token == 2 else "plain"}.get(state, state)
            return "bad" if counts[0] < offset * (state == "c") else state

        return CounterMachine.explore(
            ((1,), (-1,), (offset,)),
            "start",
            step,
            lambda state, counts: int(state != "bad" and counts[0] == offset * (state == "c")),
            offset + 1,
        )

    found = proven(bracketed(0), bracketed(5))
    assert (0, 0, 1) in found.ranges.forms


def test_large_increments_are_no_loops() -> None:
    """2^31 down and 1 up: the walk does not go through the values between."""
    machine = CounterMachine.explore(
        ((2**31,), (-1,)), 0, lambda state, token, counts: 0, lambda state, counts: int(counts[0] > 0)
    )
    assert len(proven(machine, scaled(machine, -1)).pairs) < 10


def test_finite_machines_are_machines_without_counters() -> None:
    def depth(most: int) -> CounterMachine:
        return CounterMachine.explore(
            ((), ()),
            0,
            lambda state, token, counts: (
                -1 if state < 0 or not 0 <= state + 1 - 2 * token <= most else state + 1 - 2 * token
            ),
            lambda state, counts: int(state == 0),
            0,
        )

    proven(depth(3), depth(3))
    found = compare_counting(depth(40), depth(41))
    assert found == Difference((0,) * 41 + (1,) * 41, 0, 1)
    assert compare_counting(brackets(), depth(40)) == Difference((0,) * 41 + (1,) * 41, 1, 0)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_two_machines(data: st.DataObject) -> None:
    one = data.draw(counter_machines())
    two = data.draw(counter_machines(one.symbols))
    found = compare_counting(one, two)
    length = shortest_difference(one, two, 12)
    if isinstance(found, Invariant):
        assert length is None
        assert flaw(one, two, found) is None
    if isinstance(found, Difference):
        assert length == len(found.tokens) if len(found.tokens) <= 12 else length is None
        assert plain(one, found.tokens)[-1] == found.left
        assert plain(two, found.tokens)[-1] == found.right
        assert found.left != found.right
    if isinstance(found, Undecided):
        assert length is None


def test_a_distance_that_is_known_roughly_does_not_mislead() -> None:
    """Taken for more than it is, it would lead to a longer counterexample here."""
    rows = ((2, 0, 0, 2, 2, 2), (2, 3, 0, 3, 1, 2), (1, 0, 0, 2, 1, 2), (1, 0, 2, 1, 2, 0))
    controls = (Machine(transitions=rows, outputs=(0, 0, 0, last)) for last in (0, 1))
    one, two = (CounterMachine(increments=((2,), (-1,)), window=1, control=each) for each in controls)
    found = compare_counting(one, two)
    assert isinstance(found, Difference)
    assert len(found.tokens) == shortest_difference(one, two, 9)


# Refusals.


def test_what_is_not_decided_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = brackets()
    faulty = rebuilt(machine, machine.increments, 41, lambda counts: counts, 0, 41)
    monkeypatch.setattr(comparison, "MOST_PAIRS", 10)
    monkeypatch.setattr(comparison, "MOST_SEARCHED", 10)
    found = compare_counting(machine, faulty)
    assert found == Undecided(
        "a proof needs more than 10 pairs, and no counterexample is among the nearest 10 states"
    )


def test_only_machines_with_the_same_tokens_are_compared() -> None:
    with pytest.raises(InputError, match="same tokens"):
        compare_counting(LANGUAGES["parenthesis"].machine, LANGUAGES["interleaved"].machine)


# Planted faults.


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


# The checker.


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_proof_with_a_pair_missing_or_of_another_machine_is_refused(name: str) -> None:
    machine = LANGUAGES[name].machine
    found = proven(machine, widened(machine, 2))
    for pair in found.pairs:
        fewer = replace(found, pairs=[each for each in found.pairs if each != pair])
        assert flaw(machine, widened(machine, 2), fewer) is not None
    dice = random.Random(2)
    for fault in FAULTS.values():
        faulty = fault(machine, dice)
        if shortest_difference(machine, faulty, 60 if machine.counters == 1 else 20) is not None:
            assert flaw(faulty, widened(machine, 2), found) is not None


def test_a_proof_without_knowledge_is_refused() -> None:
    machine = brackets(window=3)
    found = proven(machine, machine)
    ranges = found.ranges
    for changed, complaint in (
        (replace(ranges, bounds=(1,)), "too small for the windows"),
        (replace(ranges, forms=((1, 0),)), "a form is missing"),
        (replace(ranges, periods=(0,)), "a period or a bound is too small"),
    ):
        assert complaint in (flaw(machine, machine, replace(found, ranges=changed)) or "")
    extra = replace(found, pairs=[*found.pairs, (0, 0, (99,))])
    assert "is malformed" in (flaw(machine, machine, extra) or "")
