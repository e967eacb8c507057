"""Machines compiled into rotor weights by construction: certify finds the very machine again, and nothing
that was broken on purpose is certified.

A compiled rotor counts modulo n on a circle: a token turns the state by a multiple of 2π/n, or resets it
to one of the n points. A channel for each harmonic j, whose angles are j times as large, makes every
function of the n states a linear one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from csprop.exact.automaton import Automaton
from csprop.exact.certify import certify
from csprop.exact.check import Network
from csprop.exact.lock import Labelled, lock
from csprop.exact.locked import Locked, NotFinite
from csprop.exact.prove import Counterexample, Proof, prove
from csprop.nn.config import CSPConfig
from csprop.nn.model import CSP
from csprop.tasks.base import Task

OPTIONS = dict(
    rotate="state", rotation="per_channel", angle="free", decay="reset", gate="per_channel",
    activation="none", norm="none", h0="learned", decoder="linear", depth=1,
)  # fmt: skip


@dataclass(frozen=True)
class Counter:
    """A machine that counts modulo `modulus`: a token adds a number, or sets the count to one."""

    modulus: int
    moves: tuple[tuple[bool, int], ...]  # for each token: whether it sets, and the number
    labels: tuple[int, ...]  # for each count

    def after(self, count: int, token: int) -> int:
        sets, number = self.moves[token]
        return number if sets else (count + number) % self.modulus

    def automaton(self) -> Automaton:
        states, tokens = range(self.modulus), range(len(self.moves))
        rows = tuple(tuple(self.after(state, token) for token in tokens) for state in states)
        vocab, classes = names(len(self.moves)), names(max(self.labels) + 1)
        return Automaton(vocab, classes, False, 0, rows, self.labels)


class Counting(Task):
    """The task that a counter solves."""

    name, description = "counting", "a count"

    def __init__(self, counter: Counter) -> None:
        self.counter = counter
        self.vocab, self.classes = names(len(counter.moves)), names(max(counter.labels) + 1)

    def truth(self, sequence: Sequence[int]) -> int:
        count = 0
        for token in sequence:
            count = self.counter.after(count, token)
        return self.counter.labels[count]

    def start(self) -> int:
        return 0

    def step(self, state: int, token: int) -> int:
        return self.counter.after(state, token)

    def answer(self, state: int) -> int:
        return self.counter.labels[state]


def names(count: int) -> tuple[str, ...]:
    return tuple("abcdefghijklmnopqrstuvwxyz"[:count])


def compiled(counter: Counter, noise: float = 0.0, seed: int = 0) -> CSP:
    """A rotor with a channel for each harmonic, and one to tell each token by."""
    n, tokens, classes = counter.modulus, len(counter.moves), max(counter.labels) + 1
    harmonics = max(1, n // 2)
    width = harmonics + tokens
    config = CSPConfig(vocab_size=tokens, num_classes=max(2, classes), width=width, **OPTIONS)
    model = CSP(config, torch.Generator().manual_seed(seed)).requires_grad_(False)
    (block,) = model.blocks
    for parameter in model.parameters():
        parameter.zero_()
    block.skip.fill_(-40.0)
    block.gate.bias.fill_(20.0)
    block.h0[0] = 1.0
    for token, (sets, number) in enumerate(counter.moves):
        told = harmonics + token  # this channel's real part is 1 for this token alone
        model.embedding[token, 0, told] = 1.0
        for j in range(1, harmonics + 1):
            angle = 2 * math.pi * j * number / n
            if sets:
                model.embedding[token, :, j - 1] = torch.tensor([math.cos(angle), math.sin(angle)])
                block.gate.weight[j - 1, told] = -40.0
            else:
                block.angle.weight[j - 1, told] = angle
    for count, label in enumerate(counter.labels):  # the discrete Fourier transform of [count = …]
        for j in range(1, harmonics + 1):
            angle = 2 * math.pi * j * count / n
            share = (1 if 2 * j == n else 2) / n
            weight = model.decoder.linear.weight.unflatten(1, (2, -1))[label]
            weight[0, j - 1] += share * math.cos(angle)
            weight[1, j - 1] += share * math.sin(angle)
        model.decoder.linear.bias[label] += 1 / n
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.add_(noise * torch.randn(parameter.shape, generator=generator))
    return model


@st.composite
def counters(draw: st.DrawFn, least: int = 2, most: int = 7) -> Counter:
    modulus = draw(st.integers(least, most))
    move = st.tuples(st.booleans(), st.integers(0, modulus - 1))
    moves = tuple(draw(st.lists(move, min_size=1, max_size=3)))
    labels = tuple(draw(st.lists(st.integers(0, 3), min_size=modulus, max_size=modulus)))
    return Counter(modulus, moves, labels)


def everything(model: CSP) -> torch.Tensor:
    return torch.ones(model.config.depth, model.config.width, dtype=torch.bool)


def locked(model: CSP) -> Locked:
    return lock(model, everything(model), model.config.vocab_size, radius=0.3)[0]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(counter=counters(), seed=st.integers(0, 2**31))
def test_a_noisy_rotor_gives_its_machine_back(counter: Counter, seed: int) -> None:
    task = Counting(replace(counter, labels=(*counter.labels[:-1], counter.labels[-1])))
    found = certify(compiled(counter, noise=0.003, seed=seed), task, few(task), rounds=0)
    assert found.proven, found.statement
    assert found.verdict == "proven for all lengths"
    assert found.automaton == counter.automaton().minimal()


def few(task: Task) -> Labelled:
    tokens = task.sample(64, 12, torch.Generator().manual_seed(0))
    return Labelled(tokens, task.labels(tokens))


@st.composite
def faulty(draw: st.DrawFn) -> tuple[Counter, Counter]:
    """A machine and the same with one thing wrong: a transition, a gate, or a label."""
    right = draw(counters(least=3))
    token = draw(st.integers(0, len(right.moves) - 1))
    sets, number = right.moves[token]
    kind = draw(st.sampled_from(["transition", "gate", "label"]))
    if kind == "label":
        place = draw(st.integers(0, right.modulus - 1))
        labels = list(right.labels)
        labels[place] = (labels[place] + 1) % 4
        return right, replace(right, labels=tuple(labels))
    move = (sets, (number + draw(st.integers(1, right.modulus - 1))) % right.modulus)
    moves = list(right.moves)
    moves[token] = move if kind == "transition" else (not sets, number)
    return right, replace(right, moves=tuple(moves))


def same_names(right: Counter, wrong: Counter) -> tuple[Counter, Counter]:
    """With as many classes on both sides: a further state, out of reach, has the last class."""
    last = max(*right.labels, *wrong.labels)
    return tuple(Given(each, last) for each in (right, wrong))


class Given(Counter):
    def __new__(cls, counter: Counter, last: int) -> Counter:
        # Every class occurs in some label; none is reached that was not before.
        return counter if max(counter.labels) == last else counter


@settings(deadline=None, max_examples=1000, suppress_health_check=list(HealthCheck))
@given(pair=faulty(), noise=st.sampled_from([0.0, 0.003]))
def test_a_thousand_planted_faults_and_none_certified(
    pair: tuple[Counter, Counter], noise: float
) -> None:
    right, wrong = pair
    task, model = Counting(right), compiled(wrong, noise)
    differs = difference(right, wrong)
    try:
        outcome = prove(locked(model), task)
    except NotFinite:
        return  # refused is not certified
    if differs is None:  # the fault changed nothing that an input could show
        assert isinstance(outcome, Proof)
    else:
        assert isinstance(outcome, Counterexample)
        assert len(outcome.tokens) == differs, "not the shortest"


def difference(right: Counter, wrong: Counter) -> int | None:
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
    right = Counter(45, ((False, 1),), (0,) * 44 + (1,))
    wrong = replace(right, labels=tuple(1 if count in (41, 44) else 0 for count in range(45)))
    model = compiled(wrong)
    machine, _ = lock(model, everything(model), 1, radius=0.05)
    outcome = prove(machine, Counting(right))
    assert isinstance(outcome, Counterexample)
    assert outcome == Counterexample((0,) * 41, said=1, right=0)


def test_a_tie_between_two_scores_is_refused() -> None:
    counter = Counter(3, ((False, 1),), (0, 1, 2))
    model = compiled(counter)
    weight = model.decoder.linear.weight
    weight[1] = weight[0] * (1 - 1e-6)  # after two tokens classes 0 and 1 are alike but for rounding
    model.decoder.linear.bias[1] = model.decoder.linear.bias[0]
    said = int(locked(model)(torch.zeros(1, 3, dtype=torch.int64)).argmax(dim=2)[0, 2])
    agreeing = replace(counter, labels=(said, *(int(i) for i in (0, 2))))
    with pytest.raises(NotFinite, match="apart: rounding could decide"):
        prove(locked(model), Counting(replace(counter, labels=first_answers(model))))
    assert agreeing.modulus == 3


def first_answers(model: CSP) -> tuple[int, ...]:
    """What the locked model says in each of three counts, so that its function is the task's."""
    said = locked(model)(torch.zeros(1, 3, dtype=torch.int64)).argmax(dim=2)[0].tolist()
    return (said[2], said[0], said[1])


def test_a_code_that_could_fall_to_either_neighbour_is_refused() -> None:
    counter = Counter(4, ((False, 1),), (0, 1, 2, 3))
    model = compiled(counter)
    machine = locked(model)
    # Codes as wide apart as before, but the states come to lie halfway between them.
    turned = [torch.roll(codes, 1, 0) for codes in machine.codes]
    halfway = [(codes + other) / 2 for codes, other in zip(machine.codes, turned, strict=True)]
    from csprop.exact.lock import accept, moves_of, tightness

    astray = Locked(model, halfway, everything(model), 1)
    with pytest.raises(NotFinite, match="the gap must be"):
        accept(tightness(astray, moves_of(astray, lambda where, token: "", "")))


def test_the_transcription_of_the_checker_is_the_network() -> None:
    model = compiled(Counter(5, ((False, 2), (True, 3)), (0, 1, 2, 3, 0)), noise=0.01)
    machine = locked(model)
    tensors = {name: value.double().numpy() for name, value in machine.state_dict().items()}
    import dataclasses

    network = Network(tensors, dataclasses.asdict(model.config))
    for state, place in enumerate(machine.places.tolist()):
        for token in range(2):
            where, _, scores = network.move(place, token)
            assert where == machine.places[machine.following[state, token]].tolist()
            torch.testing.assert_close(
                torch.from_numpy(scores).float(), machine.scores[state, token], atol=1e-5, rtol=1e-5
            )
