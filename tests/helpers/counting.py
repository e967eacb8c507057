"""Models that count, written by hand or compiled, as runs on disk; and faults to plant in them."""

import itertools
import json
import random
from collections.abc import Sequence
from typing import Any

import torch

from csprop.automata.comparison import Invariant, compare_counting
from csprop.automata.forms import Ranges, view_function
from csprop.cells.options import Counter, Switch
from csprop.nn.config import CSPConfig
from csprop.nn.model import CSP
from csprop.proof.certificate import CountingSearch
from csprop.proof.locked_counter import LockedCounter, counting_parts
from csprop.proof.prove import counting_proof, task_machine
from csprop.proof.statements import state_proof
from csprop.tasks.base import Task
from csprop.training import checkpoint
from tests.helpers.forgery import Draft

OPEN, SHUT = 20.0, -20.0
"""Of a skip: all of the input is added, or nothing."""


def _config(tokens: int, classes: int, width: int) -> CSPConfig:
    return CSPConfig(
        vocab_size=tokens, num_classes=classes, width=width, cells=[Counter(), Switch()],
        decoder="linear",
    )  # fmt: skip


@torch.no_grad()
def brackets(width: int = 4) -> CSP:
    """Return a model of `parenthesis`: a counter, two switches that fire below 0, and spare channels.

    The first channel counts, and the gates are cos φ + 0.35: 0.35 at 0, and −0.36 at −1. The score of
    "yes" is 4 (sin φ − 0.85), less 4 where the second switch was replaced.
    """
    model = CSP(_config(2, 2, width))
    for each in model.parameters():
        each.zero_()
    model.embedding[:, 0, 0] = torch.tensor([1.0, -1.0])
    counter, switch, decoder = counting_parts(model)
    counter.skip.fill_(SHUT)
    switch.skip.fill_(OPEN)
    switch.h0[0], switch.point[0] = 1.0, -1.0
    switch.gate.weight[0, 0], switch.gate.bias[0] = 1.0, 0.35
    switch.gate.bias[1:] = 1.0
    weight = decoder.weight.view(2, 2, width)  # (classes, planes, channels)
    weight[1, 1, 0] = 4.0
    # The flag is read from a channel that counts nothing: in the counter's own channel, what is held
    # and cos φ, which the skip adds, are in the same plane.
    switch.gate.weight[1], switch.gate.bias[1] = switch.gate.weight[0], 0.35
    weight[1, 0, 1] = 2.0
    decoder.bias[1] = -3.4 - 2.0
    return model.eval()


@torch.no_grad()
def tripwire(model: CSP, depth: int, channel: int = 2) -> None:
    """Let a spare switch fire where the count is `depth` or more, and then forbid "yes"."""
    _, switch, decoder = counting_parts(model)
    before, there = (1 / (1 + count**2) ** 0.5 for count in (depth - 1, depth))
    scale = min(700.0, 2 / (before - there))
    width = model.config.width
    switch.gate.weight[channel].zero_()
    switch.gate.weight[channel, width] = scale  # sin φ of the first channel
    switch.gate.bias[channel] = -scale * (before + there) / 2
    weight = decoder.weight.view(2, 2, width)
    weight[1, 0, channel] = 2.0
    decoder.bias[1] -= 2.0


def complete(draft: Draft) -> None:
    """Let the certificate say what follows from forged weights, be the machine right or not."""
    network = CSP(CSPConfig.from_json(draft.config["model"]))
    tensors = {name.removeprefix("network."): each for name, each in draft.locked.items()}
    task = draft.task
    try:
        network.load_state_dict(tensors)
        locked = LockedCounter(network.eval().requires_grad_(False))
        automaton = locked.automaton(task.vocab, task.classes, task.words).reduce()
        inner = compare_counting(locked.machine, automaton)
    except Exception:  # weights that make no machine: the certificate stays as it was
        return
    assert isinstance(inner, Invariant)
    outer, search = careless(automaton, task_machine(task)), draft.certificate["search"]
    proof = counting_proof(locked.counting, inner, outer, CountingSearch(**search))
    draft.certificate = {
        **json.loads(json.dumps(state_proof(task, proof, automaton).to_json())),
        "model": draft.config["model"],
        "weights": {"file": checkpoint.LOCKED, "sha256": ""},
    }


def careless(left: Any, right: Any) -> Invariant:
    """Return the pairs that a walk meets which does not mind different answers."""
    ranges = Ranges.coarsest((left.increments, left.window), (right.increments, right.window))
    views = [view_function(each.increments, each.window, ranges.forms) for each in (left, right)]
    pairs = [(left.control.start, right.control.start, (0,) * len(ranges.forms))]
    seen = set(pairs)
    for p, q, values in pairs:
        for token in range(left.symbols):
            for after in ranges.after(values, token):
                step = [
                    each.control.transitions[state][token * each.views + view(after)]
                    for each, state, view in zip((left, right), (p, q), views, strict=True)
                ]
                pair = (*step, after)
                if pair not in seen and len(pairs) < 2000:
                    seen.add(pair)
                    pairs.append(pair)
    return Invariant(ranges, pairs)


# Faults.


def plant(tensors: dict[str, torch.Tensor], task: Task, dice: random.Random) -> str:
    """Change something in the weights of a model; what it was."""
    kind = dice.choice(["increment", "test", "answer", "far", "swap", "any"])
    embedding = tensors["network.embedding"]
    if kind == "increment":
        token, channel = dice.randrange(len(embedding)), dice.randrange(embedding.shape[2])
        embedding[token, 0, channel] += dice.choice([-3, -2, -1, 1, 2, 3])
    elif kind == "far" and "network.blocks.1.gate.weight" in tensors:
        network = CSP(_config(len(embedding), len(task.classes), embedding.shape[2]))
        network.load_state_dict({n.removeprefix("network."): each for n, each in tensors.items()})
        tripwire(network, dice.randrange(2, 60))
        tensors |= {f"network.{n}": each.detach().clone() for n, each in network.state_dict().items()}
    elif kind == "swap":
        name = dice.choice([n for n in tensors if tensors[n].ndim > 1])
        first, second = (dice.randrange(len(tensors[name])) for _ in range(2))
        order = list(range(len(tensors[name])))
        order[first], order[second] = order[second], order[first]
        tensors[name] = tensors[name][order].clone()
    else:
        part = {"answer": "decoder", "test": "blocks.1"}.get(kind, "")
        name = dice.choice([n for n in tensors if part in n])
        flat = tensors[name].view(-1)
        place = dice.randrange(len(flat))
        how = dice.choice(["add", "negate", "zero"])
        if how == "add":
            flat[place] += dice.choice([-1, 1]) * dice.choice([0.05, 0.3, 1.0, 2.0, 5.0])
        else:
            flat[place] = -flat[place] if how == "negate" else 0.0
    return kind


def wrong(model: CSP, task: Task, deep: Sequence[Sequence[int]]) -> Sequence[int] | None:
    """Return a short input, or one of some deep ones, which the network itself answers wrongly."""
    tokens = range(len(task.vocab))
    length = {2: 10, 3: 6}.get(len(task.vocab), 5)
    short = torch.tensor(list(itertools.product(tokens, repeat=length)))
    for rows in (short, *(torch.tensor([row]) for row in deep)):
        with torch.no_grad():
            said = model(rows).argmax(dim=2)
        for row, answers in zip(rows.tolist(), said.tolist(), strict=True):
            for end, answer in enumerate(answers, start=1):
                if len(row) > 40 and end % 7 and end < len(row) - 2:
                    continue  # of a long row, some prefixes
                if answer != task.truth(row[:end]):
                    return row[:end]
    return None
