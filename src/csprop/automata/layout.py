"""Positions of the states of a machine in a picture."""

import math

import numpy as np
from numpy.typing import NDArray

from csprop.automata.machine import Machine

READABLE = 12
"""The largest number of states for which arrows are labelled."""

Points = NDArray[np.float64]


def layout(machine: Machine, gap: float = 1.9) -> Points:
    """Return the position of each state, (S, 2): on a circle, or for many states by graph distance."""
    few = len(machine) <= READABLE
    return _circle(len(machine), gap) if few else _by_distance(machine)


def _circle(states: int, gap: float = 1.9) -> Points:
    """Return positions on a circle, clockwise from the left, where the start arrow is."""
    if states == 1:
        return np.zeros((1, 2))
    radius = max(1.2, gap / 2 / math.sin(math.pi / states))
    angles = math.pi - 2 * math.pi * np.arange(states) / states
    return radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _by_distance(machine: Machine) -> Points:
    """Return positions whose distances approximate the graph distances, by stress majorization."""
    states = len(machine)
    steps = np.full((states, states), np.inf)
    for state, row in enumerate(machine.transitions):
        steps[state, list(row)] = steps[list(row), state] = 1
    np.fill_diagonal(steps, 0)
    for middle in range(states):  # Floyd and Warshall
        steps = np.minimum(steps, steps[:, middle : middle + 1] + steps[middle])
    far = steps[np.isfinite(steps)].max()
    steps[np.isinf(steps)] = far + 1  # parts that are not connected
    np.fill_diagonal(steps, 1)
    weights = steps**-2.0
    np.fill_diagonal(weights, 0)
    pull = np.linalg.pinv(np.diag(weights.sum(axis=1)) - weights)
    places = _circle(states)
    places *= far / 2 / np.abs(places).max()
    for _ in range(300):
        apart = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
        ratio = weights * steps / apart.clip(1e-9)
        places = pull @ (np.diag(ratio.sum(axis=1)) - ratio) @ places
    gaps = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1)) + 1e9 * np.eye(states)
    return places * 0.75 / max(0.25, float(np.quantile(gaps.min(axis=1), 0.1)))
