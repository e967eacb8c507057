"""The automaton against definitions written out here."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csprop import use_backend
from csprop.automata.automaton import Automaton
from csprop.errors import InputError
from csprop.ops import native
from tests.helpers import machines
from tests.helpers.judge import smallest
from tests.helpers.machines import automata

BACKENDS = ["torch"] if native.WHY_NOT else ["torch", "native"]


def parity(**changes: Any) -> Automaton:
    given: dict[str, Any] = {
        "vocab": ("0", "1"), "classes": ("even", "odd"), "words": False, "start": 0,
        "transitions": ((0, 1), (1, 0)), "outputs": (0, 1), **changes,
    }  # fmt: skip
    return Automaton(**given)


def plain(automaton: Automaton, sequence: Any) -> list[int | None]:
    """Return the answers, by definition."""
    state, said = automaton.start, []
    for token in sequence:
        state = automaton.transitions[state][token]
        said.append(automaton.outputs[state])
    return said


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=60)
@given(data=st.data())
def test_runs(backend: str, data: st.DataObject) -> None:
    automaton = data.draw(automata())
    sequence = data.draw(st.lists(st.integers(0, len(automaton.vocab) - 1), max_size=30))
    expected = plain(automaton, sequence)
    with use_backend(backend):
        for tokens in (sequence, np.array(sequence, np.uint8), np.array(sequence, np.int64)):
            answers = automaton.run(tokens)
            assert answers.dtype == np.uint16
            assert answers.tolist() == expected
            if sequence:
                assert automaton.final(tokens) == expected[-1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint16, np.int32, np.int64, np.uint64])
def test_other_types_and_strides(backend: str, kind: Any) -> None:
    tokens = np.random.default_rng(0).integers(0, 2, 20_001).astype(kind)[::2]
    with use_backend(backend):
        assert parity().run(tokens).tolist() == (np.cumsum(tokens) % 2).tolist()
        assert parity().final(tokens) == int(tokens.sum()) % 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [np.uint8, np.int64])
@pytest.mark.parametrize("position", [0, 1, 4095, 4096, 9999])
def test_a_token_out_of_range_is_named(backend: str, kind: Any, position: int) -> None:
    tokens = np.zeros(10_000, kind)
    wrong = [2, 255] if kind is np.uint8 else [2, 256, -1, 2**40, -(2**63)]
    for token in wrong:
        tokens[position] = token
        tokens[-1] = 2
        with use_backend(backend):
            for method in (parity().run, parity().final):
                with pytest.raises(InputError, match=rf"token -?\d+ at position {position + 1} "):
                    method(tokens)


@pytest.mark.parametrize("backend", BACKENDS)
def test_other_values_than_sequences_are_refused(backend: str) -> None:
    bad = [
        *(0.5, [0.0, 1.0], [[[0, 1]]], ["0"], "01", None, [True], [[0], [0, 1]], [2**70]),
        np.uint64(2**63),
    ]
    with use_backend(backend):
        for tokens in bad:
            with pytest.raises(InputError):
                parity().run(tokens)  # pyright: ignore
        with pytest.raises(InputError, match="empty"):
            parity().final([])
        assert parity().run([]).shape == (0,)
        with pytest.raises(InputError):
            parity().run(np.array([2**63], np.uint64))


def test_a_large_machine_runs_alike() -> None:
    generator = np.random.default_rng(1)
    table = generator.integers(0, 1200, (1200, 60))
    said = generator.integers(0, 70, 1200)
    rows = tuple(map(tuple, table.tolist()))
    names = tuple(map(str, range(70)))
    automaton = machines.automaton(names[:60], names, True, 7, rows, tuple(said.tolist()))
    tokens = generator.integers(0, 60, 10_000)
    results = []
    for backend in BACKENDS:
        with use_backend(backend):
            results.append(automaton.run(tokens).tolist())
            assert automaton.final(tokens) == results[-1][-1]
    assert results[0] == results[-1] == plain(automaton, tokens)
    small = automaton.minimal()
    assert small.run(tokens).tolist() == results[0]
    assert small == small.minimal()


@settings(max_examples=150)
@given(automata())
def test_minimal_is_smallest_and_equivalent(automaton: Automaton) -> None:
    small = automaton.minimal()
    assert len(small) == smallest((automaton.transitions, automaton.outputs, automaton.start))
    assert small.start == 0
    assert small.minimal() == small
    depth = {1: 12, 2: 7, 3: 5}[len(automaton.vocab)]
    for sequence in itertools.product(range(len(automaton.vocab)), repeat=depth):
        assert plain(small, sequence) == plain(automaton, sequence)


@settings(max_examples=100)
@given(st.data())
def test_other_presentations_have_the_same_minimum(data: st.DataObject) -> None:
    one = data.draw(automata())
    # Every state twice, each transition to either copy, all shuffled, and a start of its own or not.
    count = len(one)
    order = data.draw(st.permutations(range(2 * count)))
    rows: list[Any] = [None] * (2 * count)
    said: list[Any] = [None] * (2 * count)
    for copied in range(2 * count):
        state = copied % count
        rows[order[copied]] = tuple(
            order[there + count * data.draw(st.integers(0, 1))] for there in one.transitions[state]
        )
        said[order[copied]] = one.outputs[state]
    start = order[one.start]
    if data.draw(st.booleans()):  # what the start answers, if nothing leads there, is nobody's business
        rows.append(rows[start])
        said.append(data.draw(st.sampled_from([None, 0])))
        start = 2 * count
    two = machines.automaton(one.vocab, one.classes, one.words, start, tuple(rows), tuple(said))
    assert one.minimal() == two.minimal()
    assert hash(one.minimal()) == hash(two.minimal())
    assert one.difference(two) is None


def test_lists_are_not_tuples() -> None:
    for field in ("vocab", "classes", "transitions", "outputs"):
        with pytest.raises(InputError):
            parity(**{field: list(getattr(parity(), field))})
    with pytest.raises(InputError):
        parity(transitions=([0, 1], [1, 0]))
