"""Drawing sequences of a language, sequences that just miss it, and sequences of several lengths."""

import numpy as np

from csprop.automata.machine import Machine
from csprop.data.draws import Draws, Whole
from csprop.data.examples import UNLABELLED, Examples
from csprop.tasks.base import Task


def members(machine: Machine, answer: int, count: int, length: int, draws: Draws) -> Whole:
    """Draw sequences that a machine gives a class, uniformly; none if this length has none."""
    following = np.array(machine.transitions)  # (states, symbols)
    inside = np.array([float(output == answer) for output in machine.outputs])
    # ahead[t][s]: the number of ways from s to the class in t steps, up to a common factor.
    ahead = [inside]
    for _ in range(length):
        ways = ahead[-1][following].sum(axis=1)
        ahead.append(ways / max(ways.max(), 1))
    state = np.full(count if ahead[length][machine.start] else 0, machine.start)
    tokens = np.empty((len(state), length), np.int64)
    for step in range(length):
        ways = ahead[length - step - 1][following[state]]  # (count, symbols)
        lot = draws.fractions((len(state),)) * ways.sum(axis=1)
        tokens[:, step] = (lot[:, None] >= ways.cumsum(axis=1)[:, :-1]).sum(axis=1)
        state = following[state, tokens[:, step]]
    return tokens


def near(tokens: Whole, symbols: int, draws: Draws) -> Whole:
    """Return each row (N, T) with one small change, after which it may still be in its language.

    A third of the rows have one token replaced by another one, a third have that at one of the last
    three places, and a third have two different neighbours exchanged, if there are any.
    """
    count, length = tokens.shape
    rows, changed = np.arange(count), tokens.copy()
    lots = draws.fractions((count, length))
    kind = draws.below(3, (count,))
    other = draws.below(max(2, symbols), (count,), least=1)

    late = np.arange(length) >= length - 3
    place = np.where(kind[:, None] == 1, lots * late, lots).argmax(axis=1)
    replaced = (tokens[rows, place] + other) % symbols
    changed[rows, place] = np.where(kind < 2, replaced, tokens[rows, place])
    if length > 1:
        left = (lots[:, 1:] * (tokens[:, 1:] != tokens[:, :-1])).argmax(axis=1)
        pairs = np.stack([left, left + 1])  # (2, N)
        changed[rows, pairs] = np.where(kind == 2, tokens[rows, pairs[::-1]], changed[rows, pairs])
    return changed


def shuffled(*parts: Whole, draws: Draws) -> Whole:
    """Return all rows of some matrices, in random order."""
    rows = np.concatenate(parts)
    return rows[draws.permutation(len(rows))]


def draw_lengths(task: Task, count: int, longest: int, draws: Draws) -> Whole:
    """Draw lengths that a task has, each with the same probability, (count,)."""
    task.check_length(longest)
    lengths = np.arange(task.lengths.start, longest + 1, task.lengths.step)
    return lengths[draws.below(len(lengths), (count,))]


def draw_examples(task: Task, lengths: Whole, draws: Draws) -> Examples:
    """Draw a row of each of these lengths (N,), which is answered at its end."""
    places = np.arange(1, lengths.max(initial=0) + 1)
    tokens = np.zeros((len(lengths), len(places)), np.int64)
    labels = np.full_like(tokens, UNLABELLED)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        tokens[rows, :length] = drawn = task.draw(len(rows), length, draws)
        labels[rows, :length] = task.classify(drawn)
    return Examples.from_matrices(tokens, labels, places == lengths[:, None])
