"""Searching: the finite set of states that a trained model means.

Breadth first from h_0 over all tokens: a state closer than a radius to a code is that code, any other
is a new one, until nothing new comes. Then every code moves to the mean of the states that snap to it.

A place is the number of a code for each layer; a move is a place and the token read there.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from csprop.automata.walk import Endless, Oracle, Walk, moves
from csprop.exact.locked import MOST_STATES, NotFinite, at, nearest
from csprop.exact.models import Stepwise

RADII = (0.3, 0.15, 0.5)
"""To merge within, the likeliest first; a rotor's states lie on the unit sphere."""
MOST_CODES = 512
AT_ONCE = 256
"""Places whose moves are computed together."""

Place = tuple[int, ...]


@dataclass(frozen=True)
class Codes:
    """The codes of every layer, in the order in which they were met, and all moves between them."""

    codes: list[Float[Tensor, "S M D"]]
    places: Int64[Tensor, "N L"]
    tokens: Int64[Tensor, " N"]


@torch.no_grad()
def search(model: Stepwise, kept: Bool[Tensor, "L D"], radius: float, domain: Oracle) -> Codes:
    """The codes that the inputs of a domain lead to.

    Raises:
        NotFinite: there are too many.
    """
    start = model.initial_state()[0]  # (L, M, D)
    codes = [h[None] for h in start]
    reached: list[Tensor] = []
    moved: dict[tuple[Place, int], None] = {}

    def settle(layer: int, h: Tensor) -> Tensor:
        h = torch.where(kept[layer], h, start[layer])
        distances, _ = nearest(h, codes[layer])
        for state in h[distances[:, 0] > radius]:
            if nearest(state[None], codes[layer])[0][0, 0] > radius:  # nor like one just added
                codes[layer] = torch.cat([codes[layer], state[None]])
            if len(codes[layer]) > MOST_CODES:
                raise NotFinite(
                    f"layer {layer + 1} does not close: {MOST_CODES:,} states, {radius} apart, and more"
                )
        numbers = nearest(h, codes[layer])[1][:, 0]
        reached.append(numbers)
        return codes[layer][numbers]

    def following(
        nodes: Sequence[tuple[Place, Hashable]],
    ) -> list[list[tuple[int, tuple[Place, Hashable]]]]:
        leaving = [moves(domain, where) for _, where in nodes]
        pairs = [
            (place, token) for (place, _), out in zip(nodes, leaving, strict=True) for token, _ in out
        ]
        if not pairs:
            return [[] for _ in nodes]
        moved.update(dict.fromkeys(pairs))
        reached.clear()
        places = torch.tensor([place for place, _ in pairs])
        model.step(at(codes, places), torch.tensor([token for _, token in pairs]), settle)
        arrived = map(tuple, torch.stack(reached, 1).tolist())
        return [[(token, (next(arrived), where)) for token, where in out] for out in leaving]

    try:
        Walk(((0,) * len(codes), domain.start)).run(following, MOST_STATES, AT_ONCE)
    except Endless:
        raise NotFinite(
            f"does not close: {MOST_STATES:,} states, all {radius} apart, and more"
        ) from None
    return Codes(
        codes, torch.tensor([place for place, _ in moved]), torch.tensor([token for _, token in moved])
    )


@torch.no_grad()
def refine(model: Stepwise, kept: Bool[Tensor, "L D"], codes: Codes, rounds: int = 10) -> Codes:
    """Every code moved to the mean of what snaps to it, again and again; the tightest are the result.

    Angles that are all a little too large move all codes around together, away from h_0: hence the
    tightest, and not the last.
    """
    start = model.initial_state()[0]
    found, best, least = list(codes.codes), codes.codes, math.inf
    for _ in range(rounds):
        means: list[Tensor] = []
        farthest = [
            float(nearest(h[None], each)[0][0, 0]) for h, each in zip(start, found, strict=True)
        ]

        def settle(
            layer: int,
            h: Tensor,
            found: list[Tensor] = found,
            means: list[Tensor] = means,
            farthest: list[float] = farthest,
        ) -> Tensor:
            h, old = torch.where(kept[layer], h, start[layer]), found[layer]
            distances, numbers = (each[:, 0] for each in nearest(h, old))
            arrived = torch.bincount(numbers, minlength=len(old))[:, None, None]
            sums = torch.zeros_like(old).index_add_(0, numbers, h)
            means.append(torch.where(arrived > 0, sums / arrived.clamp(min=1), old))
            farthest.append(float(distances.max()))
            return old[numbers]

        model.step(at(found, codes.places), codes.tokens, settle)
        if max(farthest) < least:
            best, least = found, max(farthest)
        found = means
    return Codes(best, codes.places, codes.tokens)
