"""Machines compiled into rotor weights: certify finds the very machine again, and nothing that was
broken on purpose is certified. (helpers/machines.py says how they are compiled.)"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from torch import Tensor

from csprop.automata.walk import Difference, every_input
from csprop.cells.rotor import RotorBlock
from csprop.proof.certify import certify
from csprop.proof.limits import NotFinite
from csprop.proof.lock import check_margins, covered_moves, lock, measure
from csprop.proof.locked import Locked
from csprop.proof.models import FromStep
from csprop.proof.prove import compare_with_task
from tests.helpers import machines

Move = tuple[bool, int]
Drawn = tuple[int, tuple[Move, ...], tuple[int, ...]]
"""Modulus, moves and labels: what a Counter is made of."""


@st.composite
def counters(draw: st.DrawFn, least: int = 2, most: int = 7) -> Drawn:
    modulus = draw(st.integers(least, most))
    move = st.tuples(st.booleans(), st.integers(0, modulus - 1))
    moves = tuple(draw(st.lists(move, min_size=1, max_size=3)))
    labels = tuple(draw(st.lists(st.integers(0, 3), min_size=modulus, max_size=modulus)))
    return modulus, moves, labels


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=counters(), seed=st.integers(0, 2**31))
def test_a_noisy_rotor_gives_its_machine_back(drawn: Drawn, seed: int) -> None:
    counter = machines.Counter(*drawn)
    task = machines.Counting(counter)
    model = machines.compiled(counter, noise=0.001, seed=seed)
    found = certify(model, task, machines.few(task), rounds=0)
    assert found.proven, found.statement
    assert found.verdict == "proven for all lengths"
    assert found.automaton == counter.automaton().minimal()


@st.composite
def faulty(draw: st.DrawFn) -> tuple[Drawn, Drawn]:
    """A machine and the same with one thing wrong: a transition, a gate, or a label."""
    right = modulus, moves, labels = draw(counters(least=3))
    token = draw(st.integers(0, len(moves) - 1))
    sets, number = moves[token]
    kind = draw(st.sampled_from(["transition", "gate", "label"]))
    if kind == "label":
        place = draw(st.integers(0, modulus - 1))
        return right, (modulus, moves, changed(labels, place, (labels[place] + 1) % 4))
    other = (number + draw(st.integers(1, modulus - 1))) % modulus
    move = (sets, other) if kind == "transition" else (not sets, number)
    return right, (modulus, changed(moves, token, move), labels)


def changed(values: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*values[:place], value, *values[place + 1 :])


@pytest.mark.slow
@settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(pair=faulty(), noise=st.sampled_from([0.0, 0.001]))
def test_no_planted_fault_is_certified(pair: tuple[Drawn, Drawn], noise: float) -> None:
    """Pruning by the examples can take a fault away: then the machine certified is the right one."""
    right, wrong = (machines.Counter(*each) for each in pair)
    task, model = machines.Counting(right), machines.compiled(wrong, noise)
    differs = difference(right, wrong)
    assume(differs is not None)  # or the fault changed nothing that an input could show
    found = certify(model, task, machines.few(task), rounds=0)
    assert not found.proven or found.automaton == right.automaton().minimal()
    try:
        outcome = compare_with_task(machines.locked(model).machine, task)
    except NotFinite:
        assert noise, "an exact rotor locks"
        return
    assert isinstance(outcome, Difference)
    assert len(outcome.tokens) == differs, "not the shortest"


def difference(right: Any, wrong: Any) -> int | None:
    """The length of the shortest input that tells two counters apart, by plain search."""
    pairs, seen, length = {(0, 0)}, {(0, 0)}, 0
    while pairs:
        length += 1
        reached = set()
        for a, b in pairs:
            for token in range(len(right.moves)):
                pair = (right.after(a, token), wrong.after(b, token))
                if right.labels[pair[0]] != wrong.labels[pair[1]]:
                    return length
                reached.add(pair)
        pairs = reached - seen
        seen |= reached
    return None


def test_right_up_to_length_40_and_wrong_at_41() -> None:
    right = machines.Counter(45, ((False, 1),), (0,) * 44 + (1,))
    wrong = replace(right, labels=tuple(1 if count in (41, 44) else 0 for count in range(45)))
    model = machines.compiled(wrong)
    locked, _ = lock(model, machines.everything(model), 0.05, every_input(1))
    outcome = compare_with_task(locked.machine, machines.Counting(right))
    assert isinstance(outcome, Difference)
    assert outcome == Difference((0,) * 41, left=1, right=0)


def test_a_tie_between_two_scores_is_refused() -> None:
    counter = machines.Counter(3, ((False, 1),), (0, 1, 2))
    model = machines.compiled(counter)
    decoder: Any = model.decoder.linear
    decoder.weight[1] = decoder.weight[0] * (1 - 1e-6)  # classes 0 and 1 are alike but for rounding
    decoder.bias[1] = decoder.bias[0]
    with pytest.raises(NotFinite, match="apart: rounding could decide"):
        machines.locked(model)


def test_a_gate_that_rounding_could_turn_over_is_refused() -> None:
    model = machines.compiled(machines.Counter(2, ((False, 0), (False, 1)), (0, 1)))
    assert len(set(map(tuple, machines.locked(model).places.tolist()))) == 2
    (block,) = model.layers
    assert isinstance(block, RotorBlock)
    gate = block.gate
    gate.bias.fill_(2e-6)
    with pytest.raises(NotFinite, match="rounding could switch a gate"):
        machines.locked(model)


def counting(state: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Two states a last digit apart, far from 0: large states are measured by their size."""
    other = torch.where(state > 2**24, 2.0**24, 2.0**24 + 2)
    new = torch.where(tokens[:, None] == 1, other, state)
    odd = (new > 2**24).float()
    return new, torch.cat([1 - odd, odd], dim=1)


def whimsical(state: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """The answer depends on which row of the batch it is."""
    new = torch.where(tokens[:, None] == 1, -state, state)
    bias = torch.arange(len(tokens))[:, None] * torch.tensor([0.0, 0.01])
    return new, torch.cat([new, -new], dim=1) + bias


@pytest.mark.parametrize(
    ("step", "start", "complaint"),
    [(counting, 2.0**24, "the gap must be"), (whimsical, 1.0, "the same step has another result")],
)
def test_a_step_that_rounding_or_chance_decides_is_refused(
    step: Callable[..., tuple[Tensor, Tensor]], start: float, complaint: str
) -> None:
    found = certify(FromStep(torch.tensor([start]), step), "parity")
    assert not found.proven
    assert complaint in found.statement


def test_a_code_that_could_fall_to_either_neighbour_is_refused() -> None:
    model = machines.compiled(machines.Counter(4, ((False, 1),), (0, 1, 2, 3)))
    machine = machines.locked(model)
    # Codes as wide apart as before, but the states come to lie halfway between them.
    turned = [torch.roll(codes, 1, 0) for codes in machine.codes]
    halfway = [(codes + other) / 2 for codes, other in zip(machine.codes, turned, strict=True)]
    astray = Locked(model, halfway, machines.everything(model), 1)
    taken = covered_moves(astray, every_input(1))
    with pytest.raises(NotFinite, match="the gap must be"):
        check_margins(astray, measure(astray, taken), taken)
