"""A model and its task as JSON, for the page's JavaScript."""

import base64
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from csprop.automata.arrows import arrows, describe_counters, rules
from csprop.automata.automaton import Automaton, CounterAutomaton
from csprop.automata.counting import CounterMachine
from csprop.automata.drawing import MOST_DRAWN, READABLE, layout
from csprop.automata.walk import Endless, Oracle, Walk, moves
from csprop.cells import BUILT_IN, Tracker
from csprop.cells.router import RouterBlock
from csprop.errors import InputError
from csprop.nn.model import CSP
from csprop.proof.locked import Locked
from csprop.proof.locked_counter import LockedCounter
from csprop.runs.run import Run
from csprop.training.batches import training_data
from csprop.training.seeding import generator

TRUTH_STATES = 4096
"""The most states of a task's machine on a page; the page does not know the truth beyond them."""
EXAMPLES, LONGEST = 8, 64
"""Example sequences, and the most tokens of one."""
GAP, LETTER, LINE, SHORT = 1.9, 0.15, 16, 5
"""The distance of two states in a drawing, what each letter of a label adds to it, the most letters of
a line, and the letters that fit without more distance."""


def embed_task(run: Run) -> dict[str, Any]:
    """Embed a run's task: tokens, classes, the truth if it is known, example sequences.

    The truth is a table of states. For a task that counts it is a machine, which holds at every depth.
    """
    task, oracle = run.task, run.task.oracle
    truth = _truth(oracle) if oracle is not None and task.total else None
    if task.counting is not None:
        truth = _counting(task.counting)
    trained = None if oracle is None or not run.metrics else run.config.recipe.length
    own = {name: getattr(task, name) for name in ("description", "vocab", "classes", "words")}
    more = {"trained": trained, "truth": truth, "examples": _examples(run)}
    return {"name": task.source, **own, **more}


def _truth(oracle: Oracle) -> dict[str, Any]:
    """Return the states of a task's machine nearest to its start as a table; −1 leads out of them."""
    walk: Walk[Any] = Walk(oracle.start)
    with suppress(Endless):  # states within the bound are enough
        walk.run(lambda states: [moves(oracle, state) for state in states], TRUTH_STATES)
    states = walk.order[:TRUTH_STATES]
    numbers = {state: number for number, state in enumerate(states)}
    tokens = range(oracle.symbols)
    return {
        "moves": [[numbers.get(oracle.step(state, t), -1) for t in tokens] for state in states],
        "answers": [oracle.answer(state) for state in states],
    }


def _examples(run: Run) -> list[list[int]]:
    """Return random sequences, twice as long as in training, or some held-out rows of a file.

    More are drawn than returned: the answer changes most often in those that are.
    """
    if run.task.oracle is None:
        try:
            held_out = training_data(run.task, run.config)[1]
        except InputError:  # the file is gone or has changed; the model can still be tried
            return []
        ends = zip(held_out.begins[:EXAMPLES].tolist(), held_out.lengths.tolist(), strict=False)
        return [held_out.flat_tokens[at : at + min(n, LONGEST)].tolist() for at, n in ends]
    length = run.task.length_from(min(LONGEST, 2 * run.config.recipe.length))
    drawn = run.task.sample(4 * EXAMPLES, length, generator(run.config.seed, "report"))
    if run.task.total:
        changes = run.task.labels(drawn).diff(dim=1).ne(0).sum(dim=1)
        drawn = drawn[changes.argsort(descending=True, stable=True)]
    return drawn[:EXAMPLES].tolist()


def embed_network(model: CSP) -> dict[str, Any]:
    """Embed a network: its configuration and its weights, with the targets of a router as its maps.

    Raises:
        InputError: the page cannot run one of its cells.
    """
    weights = dict(model.state_dict())
    for layer, block in enumerate(model.layers):
        if type(block.cell) not in BUILT_IN.values() or isinstance(block.cell, Tracker):
            raise InputError(f"only Python can run its cell, {type(block.cell).__name__}")
        if isinstance(block, RouterBlock):
            weights[f"blocks.{layer}.maps"] = block.targets()
    return {
        "model": model.config.to_json(),
        "weights": {name: _tensor(value) for name, value in weights.items()},
    }


def embed_locked(
    model: Locked | LockedCounter, automaton: Automaton | CounterAutomaton
) -> dict[str, Any]:
    """Embed a locked network with its codes, and the automaton of its certificate."""
    if isinstance(model, LockedCounter):  # the page runs a model that counts as a machine
        return {"automaton": draw_automaton(automaton)}
    assert isinstance(model.network, CSP)
    return {
        **embed_network(model.network),
        "codes": [_tensor(each) for each in model.codes],
        "kept": model.kept.int().tolist(),
        "automaton": draw_automaton(automaton),
    }


def draw_automaton(automaton: Automaton | CounterAutomaton) -> dict[str, Any]:
    """Embed an automaton with a place for each state, and the rules of one that counts in words."""
    if isinstance(automaton, CounterAutomaton):
        longest = max(len(label) for each in arrows(automaton) for label in each.labels)
        entry = _counting(automaton)
        entry["counters"] = list(describe_counters(automaton).items())
        entry["rules"] = [[list(leads.items()) for leads in row] for row in rules(automaton)]
        graph, gap = automaton.control, GAP + LETTER * min(longest, LINE)
    else:
        entry = {"start": automaton.start, "transitions": automaton.transitions}
        entry["answers"] = automaton.outputs
        longest = max(len(", ".join(each.labels)) for each in arrows(automaton))
        name = max(len(automaton.classes[each]) for each in automaton.outputs if each is not None)
        words = LETTER / 2 * (min(longest, LINE) + min(name, LINE) - 2 * SHORT)
        graph, gap = automaton, GAP + max(0.0, words)
    entry["readable"] = len(graph) <= READABLE
    few = len(graph) <= MOST_DRAWN
    return entry | {"places": layout(graph, gap).round(3).tolist() if few else None}


def _counting(machine: CounterMachine) -> dict[str, Any]:
    """Embed a machine that counts; its transitions are `transitions[state][token][view]`."""
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


def _tensor(value: Tensor) -> dict[str, Any]:
    numbers = value.detach().to("cpu", torch.float32).contiguous().numpy().astype("<f4")
    return {"shape": list(value.shape), "data": base64.b64encode(numbers.tobytes()).decode()}
