"""A model and its task as JSON, for the page's JavaScript."""

import base64
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from csprop.errors import InputError
from csprop.exact.automaton import Automaton
from csprop.exact.drawing import MOST, READABLE, layout
from csprop.exact.locked import Locked
from csprop.nn.model import CSP
from csprop.tasks import FileTask, Task
from csprop.tasks.base import Examples
from csprop.tasks.machine import explore
from csprop.training.loop import generator
from csprop.training.run import Run, examples

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
        "trained": run.config.recipe.length if isinstance(found, Task) else None,
        "truth": _truth(found) if isinstance(found, Task) else None,
        "examples": _examples(run),
    }


def _truth(task: Task) -> dict[str, Any]:
    """The task's machine; −1 leads out of what is known of it."""
    machine = explore(task.start(), task.step, task.answer, len(task.vocab), TRUTH_STATES)
    return {"moves": machine.moves.tolist(), "answers": machine.answers.tolist()}


def _examples(run: Run) -> list[list[int]]:
    """Sequences twice as long as the trained ones, or held-out rows of a file."""
    if isinstance(run.task, FileTask):
        try:
            held_out = examples(run.task, run.config)[1]
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
            "answers": automaton.answers,
            "readable": len(automaton) <= READABLE,
            "places": layout(automaton).round(3).tolist() if len(automaton) <= MOST else None,
        },
    }


def _tensor(value: Tensor) -> dict[str, Any]:
    numbers = value.detach().to("cpu", torch.float32).contiguous().numpy().astype("<f4")
    return {"shape": list(value.shape), "data": base64.b64encode(numbers.tobytes()).decode()}
