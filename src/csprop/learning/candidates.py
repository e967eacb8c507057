"""Ways to a machine from labelled rows. Each ends in polished tables."""

import math

import numpy as np

from csprop.errors import Diverged
from csprop.learning.description import description
from csprop.learning.merging import merge
from csprop.learning.polishing import polish
from csprop.learning.tree import PrefixTree, Table
from csprop.nn.compile import MOST_PLACES, MOST_WEIGHTS
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


def merging(tree: PrefixTree) -> list[Table]:
    """Return the best tables that merging finds, for several shares of wrong labels."""
    fitting = math.isqrt(MOST_WEIGHTS // tree.symbols)  # in a model
    most, tables = min(max(MOST_MERGED, 4 * tree.classes), MOST_PLACES, fitting), []
    for wrong in WRONG:
        for by_class in (False, True):
            table = merge(tree, wrong, most, by_class)
            if table is not None:
                tables.append(table)
                if is_plainly_right(tree, table):
                    return best(tree, [table])
    return best(tree, tables)


def is_plainly_right(tree: PrefixTree, table: Table) -> bool:
    """Return True if a table contradicts no label, and is far shorter than they are."""
    one_state = description(tree, np.zeros((1, tree.symbols), np.int32))
    return not tree.misses(table) and PLAIN * description(tree, table) < one_state


def train_router(task: Task, seed: int, places: int, tree: PrefixTree) -> list[Table]:
    """Return the table of a router that is trained on the rows of a tree; a state is a place.

    Training is shorter than the preset's: a table that is nearly right is polished
    (docs/notes/learning.md).
    """
    shorter = {"epochs": 10, "cool_epochs": 8, "short_first": 5, "batch_size": 64}
    config = configure(task, "router", seed, width=places, **shorter)
    (trained,) = execute(task, [config], [None], every_input=False)
    if isinstance(trained, Diverged):
        return []
    (router,) = trained.model.routers
    return best(tree, [router.targets().T.numpy().astype(np.int32)])


def best(tree: PrefixTree, tables: list[Table]) -> list[Table]:
    """Return the tables polished, and those with the shortest descriptions by all kinds of moves."""
    tables = _distinct(tables)
    if tree.symbols >= MANY_TOKENS:
        tables += [polish(tree, table, split=False, by_target=True) for table in tables]
    first = _distinct([polish(tree, table, split=False) for table in _distinct(tables)])
    first.sort(key=lambda table: description(tree, table))
    return [polish(tree, table) for table in first[:FINALISTS]]


def _distinct(tables: list[Table]) -> list[Table]:
    return list({table.tobytes(): table for table in tables}.values())
