"""A model and its task as JSON, for the page's JavaScript."""

import base64
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from csprop.automata.automaton import Automaton
from csprop.automata.drawing import MOST_DRAWN
from csprop.automata.layout import READABLE, layout
from csprop.automata.walk import Oracle, Walk, moves
from csprop.errors import InputError
from csprop.exact.locked import Locked
from csprop.nn.model import CSP
from csprop.runs import Run
from csprop.tasks.base import Examples
from csprop.training.seeding import generator
from csprop.training.session import training_data

TRUTH_STATES = 4096
"""Of a task's machine at most; the truth is not known beyond them."""
EXAMPLES = 8
LONGEST = 64
"""Tokens of an example."""


def task(run: Run) -> dict[str, Any]:
    """What can be said and asked: tokens, classes, the truth as a table, sequences to begin with."""
    found = run.task
    return {
        "name": found.name,
        "description": found.description,
        "vocab": list(found.vocab),
        "classes": list(found.classes),
        "words": found.words,
        "trained": None if found.oracle is None else run.config.recipe.length,
        "truth": None if found.oracle is None else _truth(found.oracle),
        "examples": _examples(run),
    }


def _truth(oracle: Oracle) -> dict[str, Any]:
    """The task's machine; −1 leads out of what is known of it."""
    walk: Walk[Any] = Walk(oracle.start)

    def following(states: Sequence[Any]) -> list[list[tuple[int, Any]]]:
        full = len(walk.order) >= TRUTH_STATES
        return [
            [(t, s) for t, s in moves(oracle, each) if not full or s in walk.numbers] for each in states
        ]

    walk.run(following, None)
    numbers = walk.numbers
    rows = [[numbers.get(oracle.step(s, t), -1) for t in range(oracle.symbols)] for s in walk.order]
    return {"moves": rows, "answers": [oracle.answer(state) for state in walk.order]}


def _examples(run: Run) -> list[list[int]]:
    """Sequences twice as long as the trained ones, or held-out rows of a file."""
    if run.task.oracle is None:
        try:
            held_out = training_data(run.task, run.config)[1]
        except InputError:  # the file has gone or changed; the model can still be tried
            return []
        return _rows(held_out)
    length = min(LONGEST, 2 * run.config.recipe.length)
    return run.task.sample(EXAMPLES, length, generator(run.config.seed, "report")).tolist()


def _rows(data: Examples) -> list[list[int]]:
    lengths = data.lengths.clamp(max=LONGEST).tolist()[:EXAMPLES]
    rows = data.tokens.tolist()[:EXAMPLES]
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]


def trained(model: CSP) -> dict[str, Any]:
    """A network as it is."""
    return {
        "config": asdict(model.config),
        "weights": {name: _tensor(value) for name, value in model.state_dict().items()},
    }


def locked(model: Locked, automaton: Automaton) -> dict[str, Any]:
    """A locked one: the network, its codes, and the smallest automaton with a place for each state."""
    assert isinstance(model.network, CSP)
    return {
        **trained(model.network),
        "codes": [_tensor(codes) for codes in model.codes],
        "kept": model.kept.int().tolist(),
        "automaton": {
            "start": automaton.start,
            "transitions": automaton.transitions,
            "answers": automaton.outputs,
            "readable": len(automaton) <= READABLE,
            "places": layout(automaton).round(3).tolist() if len(automaton) <= MOST_DRAWN else None,
        },
    }


def _tensor(value: Tensor) -> dict[str, Any]:
    numbers = value.detach().to("cpu", torch.float32).contiguous().numpy().astype("<f4")
    return {"shape": list(value.shape), "data": base64.b64encode(numbers.tobytes()).decode()}
