"""Drawing sequences of a language, and sequences that just miss it."""

import torch
from torch import Generator, Tensor

from csprop.automata.machine import Machine


def members(machine: Machine, answer: int, count: int, length: int, generator: Generator) -> Tensor:
    """Draw sequences that a machine gives a class, uniformly; none if there are none of this length."""
    following = torch.tensor(machine.transitions)  # (states, symbols)
    inside = torch.tensor([float(output == answer) for output in machine.outputs]).double()
    # ahead[t][s]: the number of ways from s to the class in t steps, up to a common factor.
    ahead = [inside]
    for _ in range(length):
        ways = ahead[-1][following].sum(dim=1)
        ahead.append(ways / ways.max().clamp(min=1))
    state = torch.full((count if ahead[length][machine.start] else 0,), machine.start)
    tokens = torch.empty(len(state), length, dtype=torch.int64)
    for step in range(length):
        ways = ahead[length - step - 1][following[state]]  # (count, symbols)
        lot = torch.rand(len(state), generator=generator, dtype=torch.float64) * ways.sum(dim=1)
        tokens[:, step] = (lot[:, None] >= ways.cumsum(dim=1)[:, :-1]).sum(dim=1)
        state = following[state, tokens[:, step]]
    return tokens


def near(tokens: Tensor, symbols: int, generator: Generator) -> Tensor:
    """Each row (N, T) with one small change, after which it may still be in its language.

    A third of the rows have one token replaced by another one, a third have that at one of the last
    three places, and a third have two different neighbours exchanged, if there are any.
    """
    count, length = tokens.shape
    rows, changed = torch.arange(count), tokens.clone()
    lots = torch.rand(count, length, generator=generator, dtype=torch.float64)
    kind = torch.randint(3, (count,), generator=generator)
    other = torch.randint(1, max(2, symbols), (count,), generator=generator)

    late = torch.arange(length) >= length - 3
    place = torch.where(kind[:, None] == 1, lots * late, lots).argmax(dim=1)
    replaced = (tokens[rows, place] + other) % symbols
    changed[rows, place] = torch.where(kind < 2, replaced, tokens[rows, place])
    if length > 1:
        left = (lots[:, 1:] * (tokens[:, 1:] != tokens[:, :-1])).argmax(dim=1)
        pairs = torch.stack([left, left + 1])  # (2, N)
        changed[rows, pairs] = torch.where(kind == 2, tokens[rows, pairs.flip(0)], changed[rows, pairs])
    return changed


def shuffled(*parts: Tensor, generator: Generator) -> Tensor:
    """All rows of some matrices, in random order."""
    rows = torch.cat(parts)
    return rows[torch.randperm(len(rows), generator=generator)]
