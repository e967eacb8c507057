"""Machines compiled into rotor weights by construction, for several files.

A compiled rotor counts modulo n on a circle: a token turns the state by a multiple of 2π/n, or resets
it to one of the n points. A channel for each harmonic j, its angles j times as large, makes every
function of the n states a linear one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from hypothesis import strategies as st

from csprop.automata.automaton import Automaton
from csprop.automata.walk import every_input
from csprop.cells.options import Rotor
from csprop.cells.rotor import RotorBlock
from csprop.nn.config import CSPConfig
from csprop.nn.model import CSP
from csprop.proof.examples import Labelled
from csprop.proof.lock import lock
from csprop.proof.locked import Locked
from csprop.tasks.base import Task


def automaton(
    vocab: Sequence[str],
    classes: Sequence[str],
    words: bool,
    start: int,
    transitions: tuple[tuple[int, ...], ...],
    outputs: tuple[int | None, ...],
) -> Automaton:
    """Return an automaton in one line."""
    return Automaton(
        transitions=transitions, outputs=outputs, start=start,
        vocab=tuple(vocab), classes=tuple(classes), words=words,
    )  # fmt: skip


@st.composite
def automata(
    draw: st.DrawFn,
    names: Sequence[str] = ("0", "1", "2"),
    classes: Sequence[str] = ("a", "b", "c"),
    most: int = 8,
    words: bool = False,
    tokens: int | None = None,
) -> Automaton:
    """Return any automaton with some of the names; a start that is not entered has no answer."""
    count, states = tokens or draw(st.integers(1, min(6, len(names)))), draw(st.integers(1, most))
    vocab = draw(st.permutations(names))[:count]
    row = st.tuples(*[st.integers(0, states - 1)] * count)
    rows = draw(st.lists(row, min_size=states, max_size=states))
    said: list[int | None] = [draw(st.integers(0, len(classes) - 1)) for _ in range(states)]
    start = draw(st.integers(0, states - 1))
    if not any(start in row for row in rows):
        said[start] = None
    return automaton(vocab, classes, words, start, tuple(rows), tuple(said))


@dataclass(frozen=True)
class Counter:
    """A machine that counts modulo `modulus`: a token adds a number, or sets the count to one."""

    modulus: int
    moves: tuple[tuple[bool, int], ...]  # for each token: whether it sets, and the number
    labels: tuple[int, ...]  # for each count
    classes: int = 4

    def after(self, count: int, token: int) -> int:
        sets, number = self.moves[token]
        return number if sets else (count + number) % self.modulus

    def automaton(self) -> Automaton:
        states, tokens = range(self.modulus), range(len(self.moves))
        rows = tuple(tuple(self.after(state, token) for token in tokens) for state in states)
        return automaton(names(len(self.moves)), names(self.classes), False, 0, rows, self.labels)


class Counting(Task):
    """The task that a counter solves."""

    name, description = "counting", "a count"

    def __init__(self, counter: Counter) -> None:
        self.counter = counter
        self.vocab, self.classes = names(len(counter.moves)), names(counter.classes)

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
    """Return a rotor with a channel for each harmonic, and one to tell each token by."""
    n, tokens = counter.modulus, len(counter.moves)
    harmonics = max(1, n // 2)
    width = harmonics + tokens
    config = CSPConfig(
        vocab_size=tokens, num_classes=counter.classes, width=width, depth=1, cell=Rotor(),
        decoder="linear",
    )  # fmt: skip
    model = CSP(config, torch.Generator().manual_seed(seed)).requires_grad_(False)
    (block,) = model.layers
    assert isinstance(block, RotorBlock)
    assert block.skip is not None
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


def everything(model: CSP) -> torch.Tensor:
    return torch.ones(model.config.depth, model.config.width, dtype=torch.bool)


def locked(model: CSP, radius: float = 0.3) -> Locked:
    return lock(model, everything(model), radius, every_input(model.config.vocab_size))[0]


def few(task: Task) -> Labelled:
    tokens = task.sample(64, 12, torch.Generator().manual_seed(0))
    return Labelled(tokens, task.labels(tokens))
