"""Positions in space for the states of a machine that is a group: its Cayley graph as a solid."""

from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from csprop.automata.machine import Machine

Points = NDArray[np.float64]
Table = NDArray[np.int64]

FEW = 4
"""The largest number of tokens that are all drawn; of more, two that generate the group."""
TRIED = 3
"""So many tokens that undo themselves are tried, each with every other token, to find two to draw."""
CLOSE = 1e-6
"""Eigenvalues and points nearer to each other than this are the same."""


class Cayley(NamedTuple):
    """A Cayley graph in space."""

    places: Points
    """The position of each state, (S, 3): the mean is 0, the largest distance from it 1."""
    tokens: tuple[int, ...]
    """The tokens whose arrows are drawn."""
    flat: bool
    """Whether the states are on a circle in the plane of the first two coordinates."""


def cayley(machine: Machine) -> Cayley | None:
    """The Cayley graph of a machine, or None for a machine that is none.

    A machine is a Cayley graph if its tokens are permutations of its states, and the group of
    permutations that they generate has one element for each state. A cyclic group is a circle. Other
    positions are eigenvectors of the adjacency matrix: a space of three eigenvectors with one
    eigenvalue is a representation of the group, so that the states are an orbit of one point under
    rotations and reflections. Tokens have weights, chosen so that their arrows are equally long.
    """
    table = np.array(machine.transitions)
    if len(table) < 3 or not _regular(table, machine.start):
        return None
    tokens = _drawn(table, machine.start)
    for token in tokens:
        if len(around := _orbit(table, [token], machine.start)) == len(table):
            return Cayley(_circle(around), tokens, flat=True)
    places = _solid(table[:, tokens])
    return None if places is None else Cayley(_scaled(places), tokens, flat=False)


def _regular(table: Table, start: int) -> bool:
    """Whether the tokens generate a group that has one element for each state.

    It has, if every state can be the start: if there is a map of the states to themselves that takes
    the start there and commutes with the tokens.
    """
    states, numbers = len(table), np.arange(len(table))
    if any(len(set(column)) < states for column in table.T.tolist()):
        return False
    maps = np.full((states, states), -1)  # maps[:, s] is where s is taken
    maps[:, start] = numbers
    waiting = [start]
    for state in waiting:
        for token in range(table.shape[1]):
            there = table[state, token]
            if maps[0, there] < 0:
                maps[:, there] = table[maps[:, state], token]
                waiting.append(int(there))
    if len(waiting) < states:
        return False
    return all(
        np.array_equal(table[maps, token], maps[:, table[:, token]]) for token in range(table.shape[1])
    )


def _orbit(table: Table, tokens: list[int], start: int) -> list[int]:
    """The states that some tokens lead to, in the order in which they are found."""
    found = {start: None}
    waiting = [start]
    for state in waiting:
        for there in table[state, tokens].tolist():
            if there not in found:
                found[there] = None
                waiting.append(there)
    return waiting


def _drawn(table: Table, start: int) -> tuple[int, ...]:
    """The tokens to draw: all that move anything, or of many a pair that makes small faces."""
    states = np.arange(len(table))
    moving = [t for t in range(table.shape[1]) if not np.array_equal(table[:, t], states)]
    if len(moving) <= FEW:
        return tuple(moving)
    orders = {token: len(_orbit(table, [token], start)) for token in moving}
    twice = [token for token in moving if orders[token] == 2][:TRIED]
    best, chosen = np.inf, tuple(moving[:FEW])
    for one, two in product(twice, [token for token in moving if orders[token] > 2]):
        if len(_orbit(table, [one, two], start)) < len(table):
            continue
        both = table[table[:, one], two][:, None]
        face = max(orders[two], 2 * len(_orbit(both, [0], start)))
        if face < best:
            best, chosen = face, (one, two)
    return chosen


def _circle(around: list[int]) -> Points:
    places = np.zeros((len(around), 3))
    angles = 2 * np.pi * np.arange(len(around)) / len(around)
    places[around, :2] = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return places


def _scaled(places: Points) -> Points:
    places = places - places.mean(axis=0)
    return places / np.linalg.norm(places, axis=1).max()


def _solid(table: Table) -> Points | None:
    """Three coordinates for each state, in which no two states coincide; None if none are found."""
    sides = _sides(table)
    ways = [np.ones(len(table))]
    if sides is not None:  # the second half inside of the first
        ways.append(np.where(sides, 1.0, 0.65))
    for inner in ways:
        weights = np.ones(table.shape[1])
        places = None
        for _ in range(80):
            places = _leading(table, weights, inner)
            if places is None:
                break
            lengths = np.array([_length(places, column) for column in table.T])
            weights = weights * (lengths / lengths.mean()) ** 0.7
            weights /= weights.mean()
        if places is not None and _apart(places) > 0.05:
            return places
    return None


def _length(places: Points, column: Table) -> float:
    return float(np.linalg.norm(places - places[column], axis=1).mean())


def _apart(places: Points) -> float:
    """The least distance of two states, where the largest distance from the centre is 1."""
    places = _scaled(places)
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2) + 2 * np.eye(len(places))
    return float(gaps.min())


def _sides(table: Table) -> NDArray[np.bool_] | None:
    """The even states, if some tokens lead from even to odd states and the others do not."""
    for odd in range(1, 2 ** table.shape[1]):
        side = {0: True}
        waiting = [0]
        for state in waiting:
            for token, there in enumerate(table[state].tolist()):
                if there not in side:
                    side[there] = side[state] != bool(odd >> token & 1)
                    waiting.append(there)
        even = np.array([side[state] for state in range(len(table))])
        crossing = [even[column] != even for column in table.T]
        if all((each == bool(odd >> t & 1)).all() for t, each in enumerate(crossing)):
            return even
    return None


def _leading(table: Table, weights: Points, inner: Points) -> Points | None:
    """Eigenvectors with the largest eigenvalues below the first: three in one space, or in several."""
    states = np.arange(len(table))
    matrix = np.zeros((len(table), len(table)))
    for token, column in enumerate(table.T):
        weight = weights[token] * np.sqrt(inner * inner[column])
        matrix[states, column] += weight
        matrix[column, states] += weight
    matrix -= np.diag(matrix.sum(axis=1))  # minus the Laplacian
    values, vectors = (part[..., ::-1] for part in np.linalg.eigh(matrix))
    places = np.zeros((len(table), 0))
    at = 1
    while at < len(values) and places.shape[1] < 3:
        end = at
        while end < len(values) and values[at] - values[end] < CLOSE:
            end += 1
        if places.shape[1] + end - at > 3:
            return None
        places = np.concatenate([places, vectors[:, at:end]], axis=1)
        at = end
    return places
