"""A task's machine as a table: its states numbered, and which one follows which."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from csprop.errors import InputError


@dataclass(frozen=True)
class Machine:
    """A finite machine; state 0 is the start, and the others are in the order of their discovery."""

    states: tuple[Hashable, ...]  # S of them
    moves: np.ndarray  # (S, V) int64: the number of the state that follows
    answers: np.ndarray  # (S,) int64: the class in each state

    def run(self, tokens: Tensor) -> Tensor:
        """The class after every prefix of every row, (N, T) -> (N, T)."""
        symbols = self.moves.shape[1]
        if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < symbols:
            raise InputError(f"tokens must be numbers from 0 to {symbols - 1}")
        columns = np.ascontiguousarray(tokens.cpu().numpy().T)  # (T, N)
        # The table's rows laid end to end, each state named by where its row begins: a step is then
        # one sum and one look-up, which keeps a single row of a million tokens at about a second.
        following = (self.moves * symbols).ravel()  # (S·V,)
        visited = np.empty(columns.shape, dtype=np.int64)  # (T, N)
        state = np.zeros(columns.shape[1], dtype=np.int64)  # (N,)
        for t, column in enumerate(columns):
            state = following[state + column]
            visited[t] = state
        labels = np.ascontiguousarray(self.answers[visited // symbols].T)  # (N, T)
        return torch.from_numpy(labels).to(tokens.device)


def explore(
    start: Hashable,
    step: Callable[[Any, int], Hashable],
    answer: Callable[[Any], int],
    symbols: int,
    most: int | None = None,
) -> Machine:
    """All states that can be reached from the start, breadth first; there must be finitely many.

    Given a number, at most so many, and −1 leads out of them.
    """
    numbers: dict[Hashable, int] = {start: 0}
    found = [start]
    moves: list[list[int]] = []
    for state in found:  # grows as new states are found
        row = []
        for token in range(symbols):
            following = step(state, token)
            if following not in numbers and (most is None or len(found) < most):
                numbers[following] = len(found)
                found.append(following)
            row.append(numbers.get(following, -1))
        moves.append(row)
    return Machine(tuple(found), np.array(moves), np.array([answer(state) for state in found]))
