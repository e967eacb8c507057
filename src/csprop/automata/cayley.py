"""Positions in space for the states of a machine that is a group: its Cayley graph as a solid."""

from itertools import pairwise, product
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from csprop.automata.machine import Machine

Points = NDArray[np.float64]
Transitions = NDArray[np.int64]

FEW = 4
"""The largest number of tokens that are all drawn; of more, two that generate the group."""
TRIED = 3
"""So many tokens that undo themselves are tried, each with every other token, to find two to draw; and
so many spaces of eigenvectors."""
BALL = 48
"""The least number of states of a ball."""
CLOSE = 1e-6
"""Eigenvalues and points nearer to each other than this are the same."""


class Cayley(NamedTuple):
    """A Cayley graph in space."""

    places: Points
    """The position of each state, (S, 3): the mean is 0, the largest distance from it 1."""
    tokens: tuple[int, ...]
    """The tokens whose arrows are drawn."""
    shape: Literal["circle", "solid", "ball", "nested"]
    """A circle in the plane of the first two coordinates; a solid, in which no two states are nearer to
    each other than a token moves them, or with many states a ball; or faces that overlap."""


def cayley(machine: Machine) -> Cayley | None:
    """Return the Cayley graph of a machine, or None if it is not the machine of a group.

    A machine is a Cayley graph if its tokens are permutations of its states, and the group of
    permutations that they generate has one element for each state. A cyclic group is a circle. Other
    positions are eigenvectors of the Laplacian: a space of three eigenvectors with one eigenvalue is a
    representation of the group, so the states are an orbit of one point under rotations and
    reflections. Tokens have weights that make their arrows equally long.
    """
    table = np.array(machine.transitions)
    maps = _maps(table) if len(table) > 2 else None
    if maps is None:
        return None
    tokens = _choose_tokens(table, machine.start)
    for token in tokens:
        if len(around := _orbit(table, [token], machine.start)) == len(table):
            return Cayley(_circle(around), tokens, "circle")
    places = _solid(table[:, tokens], maps)
    if places is None or _apart(places) < 0.05:
        return None
    if _clear(places, table[:, tokens]) < 0.9:
        return Cayley(_scale(places), tokens, "nested")
    return Cayley(_scale(places), tokens, "ball" if len(table) >= BALL else "solid")


def _maps(table: Transitions) -> Transitions | None:
    """For each state the map that takes state 0 there and commutes with all tokens, (S, S).

    None, unless the tokens generate a group with one element for each state.
    """
    states = len(table)
    if any(len(set(column)) < states for column in table.T.tolist()):
        return None
    maps = np.full((states, states), -1)  # maps[s, x] is where x is taken if 0 is taken to s
    maps[:, 0] = np.arange(states)
    waiting = [0]
    for state in waiting:
        for token in range(table.shape[1]):
            there = table[state, token]
            if maps[0, there] < 0:
                maps[:, there] = table[maps[:, state], token]
                waiting.append(int(there))
    if len(waiting) < states:
        return None
    commutes = (np.array_equal(table[maps, t], maps[:, table[:, t]]) for t in range(table.shape[1]))
    return maps if all(commutes) else None


def _orbit(table: Transitions, tokens: list[int], start: int) -> list[int]:
    """Return the states that some tokens lead to, in breadth-first order."""
    orbit = {start}
    waiting = [start]
    for state in waiting:
        for there in table[state, tokens].tolist():
            if there not in orbit:
                orbit.add(there)
                waiting.append(there)
    return waiting


def _choose_tokens(table: Transitions, start: int) -> tuple[int, ...]:
    """Return the tokens to draw: all that move anything, or of many a pair that makes small faces."""
    states = np.arange(len(table))
    moving = [t for t in range(table.shape[1]) if not np.array_equal(table[:, t], states)]
    if len(moving) <= FEW:
        return tuple(moving)
    orders = {token: len(_orbit(table, [token], start)) for token in moving}
    twice = [token for token in moving if orders[token] == 2][:TRIED]
    best, chosen = np.inf, _generators(table, moving, start)
    for one, two in product(twice, [token for token in moving if orders[token] > 2]):
        if len(_orbit(table, [one, two], start)) < len(table):
            continue
        both = table[table[:, one], two][:, None]
        face = max(orders[two], 2 * len(_orbit(both, [0], start)))
        if face < best:
            best, chosen = face, (one, two)
    return chosen


def _generators(table: Transitions, tokens: list[int], start: int) -> tuple[int, ...]:
    """Return tokens that lead everywhere, each to states that the tokens before it do not reach."""
    chosen: list[int] = []
    reached = 1
    for token in tokens:
        if (more := len(_orbit(table, [*chosen, token], start))) > reached:
            chosen, reached = [*chosen, token], more
    return tuple(chosen)


def _circle(around: list[int]) -> Points:
    places = np.zeros((len(around), 3))
    angles = 2 * np.pi * np.arange(len(around)) / len(around)
    places[around, :2] = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return places


def _scale(places: Points) -> Points:
    places = places - places.mean(axis=0)
    return places / np.linalg.norm(places, axis=1).max()


def _solid(table: Transitions, maps: Transitions) -> Points | None:
    """Return three coordinates for each state, or None.

    Of several spaces of three eigenvectors, the best one has no two states nearer to each other than a
    token moves them: then the drawing is a solid whose faces do not overlap.
    """
    spaces = _spaces(table)
    solids = [_place_orbit(each, table, maps) for each in spaces if each.shape[1] == 3][:TRIED]
    prism = sum(each.shape[1] for each in spaces[:2]) == 3 and len(spaces) > 1
    if not solids and prism:  # of any height
        heights = np.geomspace(0.3, 3, 200)
        solids = [np.concatenate([spaces[0], each * spaces[1]], axis=1) for each in heights]
    return max(solids, key=lambda each: _clear(each, table), default=None)


def _clear(places: Points, table: Transitions) -> float:
    """Return the least distance of two states, in sides of the longest polygon."""
    places = _scale(places)
    sides = [_side(places[_orbit(table, [token], 0)]) for token in range(table.shape[1])]
    return round(_apart(places) / max(sides), 3)


def _side(corners: Points) -> float:
    """Return the distance of the first corner of a polygon from the nearest other one."""
    return float(np.linalg.norm(corners[1:] - corners[0], axis=1).min())


def _place_orbit(space: Points, table: Transitions, maps: Transitions) -> Points:
    """Return the orbit in a space (S, 3) for which the polygons of all tokens have equal sides."""
    inverse = np.linalg.pinv(space)
    turns = np.stack([(inverse @ space[taken]).T for taken in maps])  # from state 0 to each state
    tokens, powers = turns[table[0]], [turns[_orbit(table, [t], 0)] for t in range(table.shape[1])]
    weights, point = np.ones(len(tokens)), np.zeros(3)
    for _ in range(400):
        mixed = np.einsum("t,tij->ij", weights, tokens)
        point = np.linalg.eigh(mixed + mixed.T)[1][:, -1]  # least moved by the tokens
        sides = np.array([_side(each @ point) for each in powers]).clip(1e-3)
        weights = weights * (sides / sides.mean()) ** 0.2
        weights /= weights.mean()
    return turns @ point


def _apart(places: Points) -> float:
    """Return the least distance of two states, where the largest distance from the centre is 1."""
    places = _scale(places)
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2) + 2 * np.eye(len(places))
    return float(gaps.min())


def _spaces(table: Transitions) -> list[Points]:
    """Return the eigenvectors of the Laplacian by eigenvalue, without the constant one."""
    states = np.arange(len(table))
    matrix = np.zeros((len(table), len(table)))
    for column in table.T:
        np.add.at(matrix, (states, column), 1)
    matrix += matrix.T
    values, vectors = np.linalg.eigh(np.diag(matrix.sum(axis=1)) - matrix)
    ends = [1, *(np.flatnonzero(np.diff(values[1:]) > CLOSE) + 2).tolist(), len(values)]
    return [vectors[:, one:two] for one, two in pairwise(ends)]
