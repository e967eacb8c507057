"""Machines that count, beside their definitions in plain Python."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csprop.automata.automaton import CounterAutomaton
from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.errors import InputError
from tests.helpers.counters import LANGUAGES, brackets, plain


@st.composite
def counter_machines(draw: st.DrawFn, symbols: int | None = None) -> CounterMachine:
    """Any machine, with up to two counters."""
    tokens, counters = symbols or draw(st.integers(1, 3)), draw(st.integers(0, 2))
    window, states = draw(st.integers(0, 2)), draw(st.integers(1, 3))
    row = st.tuples(*[st.integers(-2, 2)] * counters)
    size = tokens * (2 * window + 1) ** counters
    targets = st.tuples(*[st.integers(0, states - 1)] * size)
    control = Machine(
        transitions=tuple(draw(targets) for _ in range(states)),
        outputs=tuple(draw(st.integers(0, 1)) for _ in range(states)),
        start=draw(st.integers(0, states - 1)),
    )
    increments = tuple(draw(row) for _ in range(tokens))
    return CounterMachine(increments=increments, window=window, control=control)


@st.composite
def counter_automata(draw: st.DrawFn) -> CounterAutomaton:
    machine, words = draw(counter_machines()), draw(st.booleans())
    vocab = ("open", "né", "close") if words else ("(", "é", ")")
    return CounterAutomaton.from_machine(machine, vocab[: machine.symbols], ("no", 'y"es'), words)


def all_alike(one: CounterMachine, two: CounterMachine, length: int) -> bool:
    """Return True if two machines answer alike on every input up to a length."""
    sequences = itertools.product(range(one.symbols), repeat=length)
    return all(plain(one, sequence) == plain(two, sequence) for sequence in sequences)


@settings(max_examples=200, deadline=None)
@given(machine=counter_machines())
def test_a_reduced_machine_answers_alike_and_is_no_larger(machine: CounterMachine) -> None:
    small = machine.reduce()
    assert all_alike(machine, small, {1: 24, 2: 8, 3: 5}[machine.symbols])
    assert small.counters <= machine.counters
    assert small.window <= machine.window
    assert len(small.control) <= len(machine.control.minimal())
    again = small.reduce()
    assert (again.counters, again.window, len(again.control)) == (
        small.counters, small.window, len(small.control),
    )  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(machine=counter_machines(), tokens=st.lists(st.integers(0, 2), max_size=200))
def test_a_machine_runs_as_defined(machine: CounterMachine, tokens: list[int]) -> None:
    sequence = tuple(token % machine.symbols for token in tokens)
    expected, oracle = plain(machine, sequence), machine.oracle
    states = list(itertools.accumulate(sequence, oracle.step, initial=oracle.start))
    assert machine.run(list(sequence)).tolist() == expected == [*map(oracle.answer, states[1:])]
    if sequence:
        assert machine.final(list(sequence)) == expected[-1]
    for wrong in ([], [[0, 0]]):
        with pytest.raises(InputError, match="one sequence that is not empty"):
            machine.final(wrong)


def test_common_factors_and_signs_are_divided_out() -> None:
    for scale, window in ((3, 4), (-2, 2), (5, 1), (-1, 7)):
        small = brackets(window, scale).reduce()
        assert (small.increments, small.window, len(small.control)) == (((1,), (-1,)), 1, 3)


def test_counters_that_do_not_matter_and_multiples_are_dropped() -> None:
    """The same depth twice, of which either answers a part, and how many closed, which nobody asks."""
    machine = CounterMachine.explore(
        ((-2, 0, 1), (2, 1, -1)),
        "good",
        lambda state, token, counts: "bad" if state == "bad" or counts[0] > 0 else "good",
        lambda state, counts: int(state == "good" and counts[2] == 0),
        window=3,
    )
    small = machine.reduce()
    assert (small.increments, small.window, len(small.control)) == (((1,), (-1,)), 1, 3)
    assert all_alike(machine, small, 10)


def test_a_finite_machine_has_no_counters() -> None:
    parity = CounterMachine.explore(
        ((1,), (-1,)), 0, lambda state, token, counts: 1 - state, lambda state, counts: state, window=2
    )
    small = parity.reduce()
    assert (small.increments, small.window, len(small.control)) == (((), ()), 0, 2)
    assert small.run([0, 1, 1]).tolist() == [1, 0, 1]


def test_a_sum_of_counters_that_follows_from_them_is_dropped() -> None:
    machine = CounterMachine.explore(
        ((1, 0, 1), (-1, 1, 0), (0, -1, -1)),  # a − b, b − c, a − c
        0,
        lambda state, token, counts: 0,
        lambda state, counts: int(counts == (0, 0, 0)),
    )
    assert machine.reduce().counters == 2


@pytest.mark.parametrize("name", LANGUAGES)
def test_machines_of_languages_need_all_their_counters(name: str) -> None:
    machine = LANGUAGES[name].machine
    small = machine.reduce()
    assert (small.counters, small.window) == (machine.counters, 1)
    assert all_alike(machine, small, 10 if machine.symbols == 2 else 6)


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_walk_that_is_too_long_is_not_relied_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("csprop.automata.reduction.MOST_WALKED", 3)
    machine = LANGUAGES[name].machine
    assert all_alike(machine, machine.reduce(), 8 if machine.symbols == 2 else 6)
