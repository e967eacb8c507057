"""Ways to a machine from labelled rows, cheap ones first. Each ends as a polished table."""

import contextlib
import io
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from csprop.automata.automaton import Automaton
from csprop.errors import Diverged
from csprop.learning.description import description
from csprop.learning.merging import merge
from csprop.learning.polishing import polish
from csprop.learning.tree import PrefixTree, Table
from csprop.nn.compile import MOST_PLACES, MOST_WEIGHTS
from csprop.nn.model import CSP
from csprop.proof.certify import certify
from csprop.tasks.base import Task
from csprop.training.config import configure
from csprop.training.session import execute

WRONG = (1e-30, 1e-4, 1e-2, 5e-2, 1.5e-1)
"""Shares of wrong labels that merging is tried with; the first allows no contradiction."""
MOST_MERGED = 64
"""States of a machine beyond which merging has failed; more where each label names its state."""
PLAIN = 10
"""A machine is plainly right if it is this many times shorter than the labels that it explains."""
MANY_TOKENS = 8
"""Of so many, most may do nothing in most states: then entries that do nothing are looked for first."""
FINALISTS = 2
"""The number of tables for which copies of states are tried, too."""
PLACES = (32, 16, 64, 8, 128)
"""Sizes of routers, in the order in which they are tried."""
RECIPE: dict[str, Any] = {"epochs": 10, "cool_epochs": 8, "short_first": 5, "batch_size": 64}
"""Shorter than the preset's: a table that is nearly right is polished (docs/notes/learning.md)."""
ROTOR_EPOCHS = 20
"""A group that a rotor can learn, it learns in a few epochs."""
MOST_AALPY = 1 << 17
"""Nodes of the tree times tokens of the vocabulary, beyond which AALpy takes too long."""


@dataclass(frozen=True)
class Method:
    """A way to a table. What a family finds, another family can confirm."""

    name: str
    family: str
    tables: Callable[[PrefixTree], list[Table]]


def list_methods(task: Task, seed: int) -> Iterator[Method]:
    """Yield the other methods to find a table, besides merging; cheap ones come first.

    Args:
        task: the rows of the tree that merging gets, for networks, which hold out a part of them.
        seed: the seed of the networks.
    """
    yield Method("merging (RPNI, EDSM of AALpy)", "merging", merge_by_aalpy)
    for places in PLACES:
        yield Method(f"router of {places} places", "router", _router(task, seed, places))
    yield Method("rotor", "rotor", _rotor(task, seed))


def merging(tree: PrefixTree) -> list[Table]:
    """Return the best tables that merging finds, for several shares of wrong labels."""
    fitting = math.isqrt(MOST_WEIGHTS // tree.symbols)  # in a model
    most, found = min(max(MOST_MERGED, 4 * tree.classes), MOST_PLACES, fitting), []
    for wrong in WRONG:
        for by_class in (False, True):
            table = merge(tree, wrong, most, by_class)
            if table is not None:
                found.append(table)
                if is_plainly_right(tree, table):
                    return best(tree, [table])
    return best(tree, found)


def is_plainly_right(tree: PrefixTree, table: Table) -> bool:
    """Return True if a table contradicts no label, and is far shorter than they are."""
    one_state = description(tree, np.zeros((1, tree.symbols), np.int32))
    return not tree.misses(table) and PLAIN * description(tree, table) < one_state


def merge_by_aalpy(tree: PrefixTree) -> list[Table]:
    """Return the tables of RPNI and EDSM; none if that would take long or rows contradict others."""
    if len(tree) * tree.symbols > MOST_AALPY or (np.diff(tree.first) > 1).any():
        return []
    if merge(tree, WRONG[0], MOST_MERGED, by_class=False) is None:  # nor would they find a small one
        return []
    return best(tree, aalpy_tables(tree))


def aalpy_tables(tree: PrefixTree) -> list[Table]:
    """The machines of AALpy's RPNI and EDSM, without any change."""
    from aalpy.learning_algs import run_EDSM, run_RPNI

    rows = [(path, label) for path, label, _ in tree.rows()]
    tables = []
    for run in (run_RPNI, run_EDSM):
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")  # that some inputs lead nowhere
            model: Any = run(rows, automaton_type="moore", print_info=False)
        states = [model.initial_state, *(each for each in model.states if each != model.initial_state)]
        numbers = {id(state): number for number, state in enumerate(states)}
        table = [
            [numbers[id(state.transitions.get(token, state))] for token in range(tree.symbols)]
            for state in states
        ]
        tables.append(np.array(table, np.int32))
    return tables


def _router(task: Task, seed: int, places: int) -> Callable[[PrefixTree], list[Table]]:
    def tables(tree: PrefixTree) -> list[Table]:
        config = configure(task, "router", seed, width=places, **RECIPE)
        (trained,) = execute(task, [config], [None], every_input=False)
        if isinstance(trained, Diverged):
            return []
        return best(tree, [read(trained.model)])

    return tables


def _rotor(task: Task, seed: int) -> Callable[[PrefixTree], list[Table]]:
    def tables(tree: PrefixTree) -> list[Table]:
        config = configure(task, "rotor", seed, epochs=ROTOR_EPOCHS)
        (trained,) = execute(task, [config], [None], every_input=False)
        if isinstance(trained, Diverged):
            return []
        automaton = certify(trained.model, task, rounds=1, progress=False).automaton
        finite = isinstance(automaton, Automaton)
        return best(tree, [np.array(automaton.transitions, np.int32)]) if finite else []

    return tables


def read(model: CSP) -> Table:
    """The table of a model of one router: a state is a place, and the start is the first one."""
    (router,) = model.routers
    return router.targets().T.numpy().astype(np.int32)


def best(tree: PrefixTree, tables: list[Table]) -> list[Table]:
    """The tables polished, and those with the shortest descriptions by all kinds of moves."""
    tables = _distinct(tables)
    if tree.symbols >= MANY_TOKENS:
        tables += [polish(tree, table, split=False, by_target=True) for table in tables]
    first = _distinct([polish(tree, table, split=False) for table in _distinct(tables)])
    first.sort(key=lambda table: description(tree, table))
    return [polish(tree, table) for table in first[:FINALISTS]]


def _distinct(tables: list[Table]) -> list[Table]:
    return list({table.tobytes(): table for table in tables}.values())
