"""A model and its task as JSON, for the page's JavaScript."""

import base64
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from csprop.automata.arrows import arrows, describe_counters, rules
from csprop.automata.automaton import Automaton
from csprop.automata.cayley import cayley
from csprop.automata.counter_automaton import CounterAutomaton
from csprop.automata.counting import CounterMachine
from csprop.automata.drawing import MOST_DRAWN
from csprop.automata.layout import READABLE, layout
from csprop.automata.walk import Endless, Oracle, Walk, moves
from csprop.cells.router import RouterBlock
from csprop.data.examples import Examples
from csprop.errors import InputError
from csprop.nn.compiled import codes
from csprop.nn.model import CSP
from csprop.proof.locked import Locked
from csprop.proof.locked_counter import LockedCounter
from csprop.runs import Run
from csprop.training.seeding import generator
from csprop.training.session import training_data

TRUTH_STATES = 4096
"""The most states of a task's machine that a page holds; beyond them it does not know the truth."""
EXAMPLES = 8
"""Sequences to begin with."""
LONGEST = 64
"""The most tokens of an example."""
GAP, LETTER, LINE, SHORT = 1.9, 0.15, 16, 5
"""The distance of two states in a drawing; what each letter of a label adds to it, the most letters of
a line, and those for which there is room without."""


def task(run: Run) -> dict[str, Any]:
    """A run's task: tokens, classes, the truth if it is known, sequences to begin with.

    The truth is a table of states; of a task that counts, its machine, which knows it at every depth.
    """
    asked, oracle = run.task, run.task.oracle
    truth = _truth(oracle) if oracle is not None and asked.total else None
    if asked.counting is not None:
        truth = _counting(asked.counting)
    return {
        "name": asked.source,
        "description": asked.description,
        "vocab": list(asked.vocab),
        "classes": list(asked.classes),
        "words": asked.words,
        "trained": None if oracle is None or not run.metrics else run.config.recipe.length,
        "truth": truth,
        "examples": _examples(run),
    }


def _truth(oracle: Oracle) -> dict[str, Any]:
    """The states of a task's machine nearest to its start, as a table; −1 leads out of them."""
    walk: Walk[Any] = Walk(oracle.start)
    with suppress(Endless):  # what was reached before the bound is kept
        walk.run(lambda states: [moves(oracle, state) for state in states], TRUTH_STATES)
    states = walk.order[:TRUTH_STATES]
    numbers = {state: number for number, state in enumerate(states)}
    tokens = range(oracle.symbols)
    return {
        "moves": [[numbers.get(oracle.step(state, t), -1) for t in tokens] for state in states],
        "answers": [oracle.answer(state) for state in states],
    }


def _examples(run: Run) -> list[list[int]]:
    """Random sequences, twice as long as those of training; of a file, some held-out rows.

    Of more that are drawn, those are taken in which the answer changes most often.
    """
    if run.task.oracle is None:
        try:
            held_out = training_data(run.task, run.config)[1]
        except InputError:  # the file is gone or has changed; the model can still be tried
            return []
        return _rows(held_out)
    length = run.task.length_from(min(LONGEST, 2 * run.config.recipe.length))
    drawn = run.task.sample(4 * EXAMPLES, length, generator(run.config.seed, "report"))
    if run.task.total:
        changes = run.task.labels(drawn).diff(dim=1).ne(0).sum(dim=1)
        drawn = drawn[changes.argsort(descending=True, stable=True)]
    return drawn[:EXAMPLES].tolist()


def _rows(data: Examples) -> list[list[int]]:
    places = zip(data.begins[:EXAMPLES].tolist(), data.lengths[:EXAMPLES].tolist(), strict=True)
    return [data.flat_tokens[at : at + min(length, LONGEST)].tolist() for at, length in places]


def trained(model: CSP) -> dict[str, Any]:
    """A network: its options, those of each layer, and its weights.

    Of the maps of a router, only where they send each place: in a page nothing else is asked of them.
    """
    weights = dict(model.state_dict())
    for layer, block in enumerate(model.layers):
        if isinstance(block, RouterBlock):
            weights[f"blocks.{layer}.maps"] = block.targets()
    return {
        "config": model.config.to_json(),
        "weights": {name: _tensor(value) for name, value in weights.items()},
    }


def locked(model: Locked | LockedCounter, automaton: Automaton | CounterAutomaton) -> dict[str, Any]:
    """A locked network with its codes, and its automaton; of one that counts, only the automaton.

    Args:
        model: a model that counts is run as a machine, so that the page needs none of its weights.
        automaton: the smallest with the same answers, as the certificate has it.
    """
    if isinstance(model, LockedCounter):
        return {"layers": [], "automaton": drawn(automaton)}
    assert isinstance(model.network, CSP)
    return {
        **trained(model.network),
        "codes": [_tensor(each) for each in model.codes],
        "kept": model.kept.int().tolist(),
        "automaton": drawn(automaton),
    }


def drawn(automaton: Automaton | CounterAutomaton) -> dict[str, Any]:
    """An automaton with a place for each state; one that counts, with its rules in words."""
    if isinstance(automaton, CounterAutomaton):
        longest = max(len(label) for each in arrows(automaton) for label in each.labels)
        told = [[list(leads.items()) for leads in row] for row in rules(automaton)]
        held = _counting(automaton) | {
            "counters": list(describe_counters(automaton).items()),
            "rules": told,
        }
        graph, gap = automaton.control, GAP + LETTER * min(longest, LINE)
    else:
        held = {"start": automaton.start, "transitions": automaton.transitions}
        held["answers"] = automaton.outputs
        longest = max(len(", ".join(each.labels)) for each in arrows(automaton))
        named = max(len(automaton.classes[each]) for each in automaton.outputs if each is not None)
        words = LETTER / 2 * (min(longest, LINE) + min(named, LINE) - 2 * SHORT)
        graph, gap = automaton, GAP + max(0.0, words)
    if len(graph) > MOST_DRAWN:
        return held | {"readable": False, "places": None}
    solid = cayley(graph) if isinstance(automaton, Automaton) else None
    if solid is not None and not (solid.shape == "circle" and len(graph) <= READABLE):
        return held | {
            "readable": len(graph) <= READABLE,
            "places": solid.places.round(4).tolist(),
            "solid": {"tokens": solid.tokens, "shape": solid.shape},
        }
    return held | {"readable": len(graph) <= READABLE, "places": layout(graph, gap).round(3).tolist()}


def _counting(machine: CounterMachine) -> dict[str, Any]:
    """A machine that counts: `transitions[state][token][view]`."""
    views, control = machine.views, machine.control
    return {
        "start": control.start,
        "transitions": [
            [row[token * views : (token + 1) * views] for token in range(machine.symbols)]
            for row in control.transitions
        ],
        "answers": control.outputs,
        "increments": machine.increments,
        "window": machine.window,
    }


def of_router(run: Run) -> Automaton | None:
    """The smallest automaton of a model that is one group of places, from its first place on.

    Such a model is a finite machine whether it is right or not: what it holds is in one of the places.
    """
    model, width = run.model, run.model.config.width
    if len(model.layers) > 1 or not model.routers or model.routers[0].places != width:
        return None
    kept = torch.ones(1, width, dtype=torch.bool)
    machine = Locked(model, [codes(model)], kept, symbols=len(run.task.vocab))
    return machine.automaton(run.task.vocab, run.task.classes, run.task.words).minimal()


def _tensor(value: Tensor) -> dict[str, Any]:
    numbers = value.detach().to("cpu", torch.float32).contiguous().numpy().astype("<f4")
    return {"shape": list(value.shape), "data": base64.b64encode(numbers.tobytes()).decode()}
