"""Margins: how far a locked model is from a point where rounding could change what it does."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from csprop.automata.walk import Oracle, Walk, moves
from csprop.cells.rotor import RotorBlock
from csprop.cells.router import RouterBlock, lead
from csprop.cells.switch import SwitchBlock
from csprop.nn.model import CSP
from csprop.proof.certificate import LayerMargins
from csprop.proof.limits import BLUR, DOUBT, RATIO, NotFinite
from csprop.proof.locked import Locked, nearest
from csprop.proof.models import FromLayer

MachineMoves = Sequence[tuple[int, int]]
"""Transitions, as pairs of a state of the machine and a token."""


def covered_moves(locked: Locked, domain: Oracle) -> list[tuple[int, int]]:
    """Return all transitions of a locked model that inputs of a domain take."""
    transitions, taken = locked.machine.transitions, dict[tuple[int, int], None]()

    def following(nodes: Sequence[tuple[int, Any]]) -> list[list[tuple[int, tuple[int, Any]]]]:
        return [[leave(state, *move) for move in moves(domain, where)] for state, where in nodes]

    def leave(state: int, token: int, where: Any) -> tuple[int, tuple[int, Any]]:
        taken[state, token] = None
        return token, (transitions[state][token], where)

    Walk((locked.machine.start, domain.start)).run(following, None)
    return list(taken)


def measure(locked: Locked, moves: MachineMoves) -> tuple[LayerMargins, ...]:
    """Return the distances in each layer, over some transitions.

    The transitions are computed again in reverse order, and must have the same results as before.

    Raises:
        NotFinite: a transition has another result.
    """
    states, tokens = torch.tensor(moves).flip(0).unbind(1)
    with _watch_gates(locked, locked.places[states]) as gates:
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
            LayerMargins(
                codes=len(codes),
                gap=None if len(codes) == 1 else float(nearest(codes, codes)[0][:, 1].min()),
                snap=float(torch.cat([distances, first])[:, 0].max()),
                size=float(codes.abs().max()),
                gate=gates.get(layer),
            )
        )
    return tuple(measured)


def check_layers(measured: Sequence[LayerMargins]) -> None:
    """Check that no state could be confused with another.

    Raises:
        NotFinite: codes are too close, or a gate is too close to the point where it changes.
    """
    for layer, each in enumerate(measured, start=1):
        if not math.isfinite(each.snap):
            raise NotFinite(f"layer {layer}: a state is not finite")
        if each.gate is not None and not each.gate >= DOUBT:
            raise NotFinite(
                f"layer {layer}: rounding could switch a gate or a route (by {each.gate:.1g})"
            )
        if each.gap is not None and not each.gap >= RATIO * max(each.snap, DOUBT * max(1, each.size)):
            raise NotFinite(
                f"layer {layer}: the {each.codes} codes are as close as {each.gap:.3g}, and states are "
                f"up to {each.snap:.3g} from them; the gap must be {RATIO:.0f} times that distance"
            )


@contextmanager
def _watch_gates(locked: Locked, places: Tensor) -> Iterator[dict[int, float | None]]:
    """Record the smallest distance of a rounded decision from a tie, by layer, during a step."""
    network, distances = locked.network, dict[int, float | None]()

    def watch(layer: int, distance: Callable[[Tensor], Tensor]) -> Callable[..., None]:
        def record(_module: Any, _inputs: Any, scores: Tensor) -> None:
            decided = distance(scores)
            nearest = float(decided.amin()) if decided.numel() else math.inf
            distances[layer] = None if nearest == math.inf else nearest

        return record

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
        yield distances
    finally:
        for hook in hooks:
            hook.remove()


def _cells(network: object) -> Sequence[nn.Module]:
    """Return the modules that hold the states of a network, where they are known."""
    if isinstance(network, FromLayer):
        return network.cells
    return network.layers if isinstance(network, CSP) else ()


def margin(locked: Locked, moves: MachineMoves) -> float:
    """Return the smallest margin between the best and the second score, over some transitions.

    If the largest score of a transition is above 1, the margin is divided by it.
    """
    states, tokens = torch.tensor(moves).unbind(1)
    scores = locked.scores[states, tokens]
    best = scores.topk(2, dim=1).values
    leads = (best[:, 0] - best[:, 1]) / scores.abs().amax(dim=1).clamp(min=1)
    return float(torch.where(leads.isfinite(), leads, 0.0).min())


def check_rounding(locked: Locked, moves: MachineMoves) -> float:
    """Return the margin of the scores.

    Raises:
        NotFinite: the behaviour of the model depends on rounding.
    """
    if not (lead := margin(locked, moves)) >= DOUBT:
        raise NotFinite(f"two scores lie {lead:.1g} apart: rounding could decide the answer")
    if not is_steady(locked, moves):
        raise NotFinite("its behaviour depends on the last digits of its weights")
    return lead


@torch.no_grad()
def is_steady(locked: Locked, moves: MachineMoves, draws: int = 4) -> bool:
    """Return True if moves and answers stay the same under small random changes of weights and codes.

    The changes are far larger than rounding errors. A model without weights, written by hand, may
    compare numbers exactly and is not tested.
    """
    if not any(True for _ in locked.parameters()):
        return True
    states, tokens = torch.tensor(moves).unbind(1)
    generator = torch.Generator().manual_seed(0)
    for _ in range(draws):
        other = copy.deepcopy(locked)
        for values in (*other.parameters(), *other.codes):
            if values.is_floating_point():
                noise = torch.randn(values.shape, generator=generator).to(values)
                values.add_(BLUR * values.abs().clamp(min=1) * noise)
        places, scores, _ = other.leave(locked.places[states], tokens)
        same = torch.equal(places, locked.places[locked.following[states, tokens]])
        if not same or not torch.equal(scores.argmax(1), locked.scores[states, tokens].argmax(1)):
            return False
    return True
