"""Locking: from a trained model to a finite machine.

A trained model approximates a finite set of states, the codes. A breadth-first search from h_0 tries
every token. A state within a radius of a code counts as that code, and any other state becomes a new
code, until there are no new ones. Then each code is moved to the mean of the states that snap to it.
The codes are accepted only if the smallest gap between codes is several times the largest snapping
distance, and no transition or answer depends on rounding.

A place is the number of a code in each layer.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from csprop.automata.walk import Endless, Oracle, Walk, moves
from csprop.proof.certificate import LayerMargins
from csprop.proof.limits import MOST_CODES, MOST_LOCKED, NotFinite
from csprop.proof.locked import Locked, at, nearest
from csprop.proof.margins import check_layers, check_rounding, covered_moves, measure
from csprop.proof.models import Stepwise

RADII = (0.3, 0.15, 0.5)
"""The radii to try, the most promising first; a rotor's states lie on the unit sphere."""
AT_ONCE = 256
"""The number of places whose transitions are computed together."""

Place = tuple[int, ...]


def lock(
    model: Stepwise, kept: Bool[Tensor, "L D"], radius: float, domain: Oracle
) -> tuple[Locked, tuple[LayerMargins, ...]]:
    """Lock a model.

    Args:
        model: the model.
        kept: the channels in use; the others stay at their initial value.
        radius: states closer than this are treated as the same state.
        domain: the inputs to consider; `every_input` considers all.

    Returns:
        The locked model, and the distances in each layer.

    Raises:
        NotFinite: the model cannot be locked; with the reason.
    """
    codes = refine(model, kept, search(model, kept, radius, domain))
    return lock_at(model, codes.codes, kept, domain)


def lock_at(
    model: Stepwise, codes: Sequence[Float[Tensor, "S M D"]], kept: Bool[Tensor, "L D"], domain: Oracle
) -> tuple[Locked, tuple[LayerMargins, ...]]:
    """Lock a model at known codes, one list for each layer; otherwise as `lock`."""
    locked = Locked(model, codes, kept, domain.symbols)
    taken = covered_moves(locked, domain)
    measured = measure(locked, taken)
    try:
        check_layers(measured)
    except NotFinite as reason:
        raise NotFinite(str(reason), codes) from None
    check_rounding(locked, taken)
    return locked, measured


@dataclass(frozen=True)
class Codes:
    """The codes of every layer in the order of discovery, and all transitions (a place and a token)."""

    codes: list[Float[Tensor, "S M D"]]
    places: Int64[Tensor, "N L"]
    tokens: Int64[Tensor, " N"]


@torch.no_grad()
def search(model: Stepwise, kept: Bool[Tensor, "L D"], radius: float, domain: Oracle) -> Codes:
    """Find the codes that the inputs of a domain reach.

    Raises:
        NotFinite: there are too many codes or places.
    """
    start = model.initial_state()[0]  # (L, M, D)
    codes = [h[None] for h in start]
    reached: list[Tensor] = []
    moved: dict[tuple[Place, int], None] = {}

    def snap(layer: int, h: Tensor) -> Tensor:
        h = torch.where(kept[layer], h, start[layer])
        distances, _ = nearest(h, codes[layer])
        for state in h[distances[:, 0] > radius]:
            # It may be close to a code that was just added.
            if nearest(state[None], codes[layer])[0][0, 0] > radius:
                codes[layer] = torch.cat([codes[layer], state[None]])
            if len(codes[layer]) > MOST_CODES:
                raise NotFinite(
                    f"layer {layer + 1} has more than {MOST_CODES:,} states that are {radius} apart"
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
        model.step(at(codes, places), torch.tensor([token for _, token in pairs]), snap)
        arrived = map(tuple, torch.stack(reached, 1).tolist())
        return [[(token, (next(arrived), where)) for token, where in out] for out in leaving]

    try:
        Walk(((0,) * len(codes), domain.start)).run(following, MOST_LOCKED, AT_ONCE)
    except Endless:
        raise NotFinite(
            f"the model has more than {MOST_LOCKED:,} states that are {radius} apart"
        ) from None
    return Codes(
        codes, torch.tensor([place for place, _ in moved]), torch.tensor([token for _, token in moved])
    )


@torch.no_grad()
def refine(model: Stepwise, kept: Bool[Tensor, "L D"], codes: Codes, rounds: int = 10) -> Codes:
    """Repeatedly move every code to the mean of the states that snap to it.

    Angles that are all slightly too large rotate all codes together, away from h_0. So the result is
    the round with the smallest snapping distance, not the last one.
    """
    start = model.initial_state()[0]
    now, best, least = list(codes.codes), codes.codes, math.inf
    for _ in range(rounds):
        means: list[Tensor] = []
        farthest = [float(nearest(h[None], each)[0][0, 0]) for h, each in zip(start, now, strict=True)]

        def snap(
            layer: int,
            h: Tensor,
            now: list[Tensor] = now,
            means: list[Tensor] = means,
            farthest: list[float] = farthest,
        ) -> Tensor:
            h, old = torch.where(kept[layer], h, start[layer]), now[layer]
            distances, numbers = (each[:, 0] for each in nearest(h, old))
            arrived = torch.bincount(numbers, minlength=len(old))[:, None, None]
            sums = torch.zeros_like(old).index_add_(0, numbers, h)
            means.append(torch.where(arrived > 0, sums / arrived.clamp(min=1), old))
            farthest.append(float(distances.max()))
            return old[numbers]

        model.step(at(now, codes.places), codes.tokens, snap)
        if max(farthest) < least:
            best, least = now, max(farthest)
        now = means
    return Codes(best, codes.places, codes.tokens)
