"""Margins: how far a locked model is from a point where rounding could change what it does."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from csprop.cells.rotor import RotorBlock
from csprop.cells.router import RouterBlock, lead
from csprop.cells.switch import SwitchBlock
from csprop.nn.model import CSP
from csprop.proof.limits import BLUR, DOUBT, MachineMoves, NotFinite, Tightness
from csprop.proof.locked import Locked, nearest
from csprop.proof.models import FromLayer


def tightness(locked: Locked, moves: MachineMoves) -> list[Tightness]:
    """The distances in each layer, over some transitions.

    The transitions are computed again in reverse order, and must have the same results as before.

    Raises:
        NotFinite: a transition has another result.
    """
    states, tokens = torch.tensor(moves).flip(0).unbind(1)
    with _gates_of(locked, locked.places[states]) as gates:
        places, scores, near = locked.leave(locked.places[states], tokens)
    same = torch.equal(places, locked.places[locked.following[states, tokens]])
    before = locked.scores[states, tokens]
    if not same or not torch.allclose(scores, before, rtol=DOUBT / 10, atol=DOUBT / 10):
        raise NotFinite("the same step has another result when it is computed again")
    start = locked.network.initial_state()[0]
    measured = []
    for layer, (h, codes, (distances, _)) in enumerate(zip(start, locked.codes, near, strict=True)):
        first, _ = nearest(h[None], codes)
        measured.append(
            Tightness(
                codes=len(codes),
                gap=None if len(codes) == 1 else float(nearest(codes, codes)[0][:, 1].min()),
                snap=float(torch.cat([distances, first])[:, 0].max()),
                size=float(codes.abs().max()),
                gate=gates.get(layer),
            )
        )
    return measured


@contextmanager
def _gates_of(locked: Locked, places: Tensor) -> Iterator[dict[int, float | None]]:
    """Record what is rounded in each layer during a step from some places, by its distance to a tie."""
    network, found = locked.network, dict[int, float | None]()

    def watch(layer: int, distance: Callable[[Tensor], Tensor]) -> Callable[..., None]:
        def see(_module: Any, _inputs: Any, scores: Tensor) -> None:
            decided = distance(scores)
            nearest = float(decided.amin()) if decided.numel() else math.inf
            found[layer] = None if nearest == math.inf else nearest

        return see

    def gate(layer: int) -> Callable[[Tensor], Tensor]:
        mine = locked.kept[layer]
        return lambda delta: delta.expand(*delta.shape[:-1], len(mine))[..., mine].abs()

    def route(layer: int, router: RouterBlock) -> Callable[[Tensor], Tensor]:
        held = (locked.codes[layer][places[:, layer]] != 0).any(dim=1)  # (N, D)
        of_targets = lead(router.maps.detach(), dim=2).flatten(1)  # (K, D)
        return lambda scores: torch.cat(
            [lead(scores[:, 0], dim=1), of_targets[scores[:, 0].argmax(dim=1)][held]]
        )

    hooks = []
    for layer, block in enumerate(_cells(network)):
        if isinstance(block, RouterBlock):
            hooks.append(block.keys.register_forward_hook(watch(layer, route(layer, block))))
        elif isinstance(block, RotorBlock | SwitchBlock):
            hooks.append(block.gate.register_forward_hook(watch(layer, gate(layer))))
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def _cells(network: object) -> Sequence[nn.Module]:
    """What holds the states of a network, where that is known."""
    if isinstance(network, FromLayer):
        return network.cells
    return network.layers if isinstance(network, CSP) else ()


def margin(locked: Locked, moves: MachineMoves) -> float:
    """The smallest margin between the best and the second score, over some transitions.

    If the largest score of a transition is above 1, the margin is divided by it.
    """
    states, tokens = torch.tensor(moves).unbind(1)
    scores = locked.scores[states, tokens]
    best = scores.topk(2, dim=1).values
    leads = (best[:, 0] - best[:, 1]) / scores.abs().amax(dim=1).clamp(min=1)
    return float(torch.where(leads.isfinite(), leads, 0.0).min())


def settled(locked: Locked, moves: MachineMoves) -> float:
    """The margin of the scores, if nothing that the model does depends on rounding.

    Raises:
        NotFinite: something does.
    """
    if not (lead := margin(locked, moves)) >= DOUBT:
        raise NotFinite(f"two scores lie {lead:.1g} apart: rounding could decide the answer")
    if not steady(locked, moves):
        raise NotFinite("its behaviour depends on the last digits of its weights")
    return lead


@torch.no_grad()
def steady(locked: Locked, moves: MachineMoves, draws: int = 4) -> bool:
    """Whether transitions and answers stay the same under small random changes of weights and codes.

    The changes are far larger than rounding errors. A model without weights, written by hand, may
    compare numbers exactly and is not tested.
    """
    if not any(True for _ in locked.parameters()):
        return True
    states, tokens = torch.tensor(moves).unbind(1)
    generator = torch.Generator().manual_seed(0)

    def blurred(exact: Tensor) -> Tensor:
        noise = torch.randn(exact.shape, generator=generator).to(exact)
        return exact + BLUR * exact.abs().clamp(min=1) * noise

    for _ in range(draws):
        other = copy.deepcopy(locked)
        for values in (*other.parameters(), *other.codes):
            if values.is_floating_point():
                values.copy_(blurred(values))
        places, scores, _ = other.leave(locked.places[states], tokens)
        right = torch.equal(places, locked.places[locked.following[states, tokens]])
        if not right or not torch.equal(scores.argmax(1), locked.scores[states, tokens].argmax(1)):
            return False
    return True
