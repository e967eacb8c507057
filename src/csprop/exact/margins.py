"""Margins: how far a locked model is from where rounding could decide what it does."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from csprop.automata.walk import Oracle, Walk, moves
from csprop.exact.locked import Locked, NotFinite, nearest
from csprop.nn.block import Block
from csprop.nn.model import CSP

RATIO = 5.0
"""The smallest gap between two codes over the largest distance snapped, at least."""
DOUBT = 1e-3
"""Far more than rounding can do: differences of distances or scores below it are not trusted."""
BLUR = 1e-5
"""How much weights and codes are changed to see whether a machine hangs on their last digits."""

Moves = Sequence[tuple[int, int]]
"""States of the machine, each with a token that is read there."""


@dataclass(frozen=True)
class Tightness:
    """How far apart the codes of a layer are, and how near to them its states."""

    codes: int
    gap: float | None
    """The smallest distance between two of them; None where there is one alone."""
    snap: float
    """The largest distance from a state to its code."""
    size: float
    """The largest number in a code."""
    gate: float | None
    """Of gates that are rounded to 0 or 1, the least that one is away from where it turns over."""


def tightness(locked: Locked, moves: Moves) -> list[Tightness]:
    """Of each layer, over some moves: a state of the machine and a token.

    They are made again, one after the other backwards, and must come out as in the machine.
    """
    states, tokens = torch.tensor(moves).flip(0).unbind(1)
    with _gates_of(locked) as gates:
        places, scores, near = locked.leave(locked.places[states], tokens)
    same = torch.equal(places, locked.places[locked.following[states, tokens]])
    before = locked.scores[states, tokens]
    if not same or not torch.allclose(scores, before, rtol=DOUBT / 10, atol=DOUBT / 10):
        raise NotFinite("the same step comes out differently at another time, or beside other rows")
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
                gate=gates[layer] if gates else None,
            )
        )
    return measured


@contextmanager
def _gates_of(locked: Locked) -> Iterator[list[float | None]]:
    """Inside, a step of a network with switches puts each layer's smallest |δ| in use on the list."""
    network, found = locked.network, list[float | None]()
    if not (isinstance(network, CSP) and network.config.decay == "switch"):
        yield found
        return

    def watch(mine: Tensor) -> Callable[..., None]:
        def see(_module: Any, _inputs: Any, delta: Tensor) -> None:
            used = delta.expand(*delta.shape[:-1], len(mine))[..., mine]
            found.append(float(used.abs().amin()) if used.numel() else None)

        return see

    gates = [cast(Block, block).gate for block in network.blocks]
    hooks = [
        gate.register_forward_hook(watch(mine)) for gate, mine in zip(gates, locked.kept, strict=True)
    ]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def margin(locked: Locked, moves: Moves) -> float:
    """The least by which the best score leads, as a part of the largest where that is above 1."""
    states, tokens = torch.tensor(moves).unbind(1)
    scores = locked.scores[states, tokens]
    best = scores.topk(2, dim=1).values
    leads = (best[:, 0] - best[:, 1]) / scores.abs().amax(dim=1).clamp(min=1)
    return float(torch.where(leads.isfinite(), leads, 0.0).min())


def settled(locked: Locked, moves: Moves) -> float:
    """The margin of the scores, where nothing hangs on rounding.

    Raises:
        NotFinite: something does.
    """
    if not (lead := margin(locked, moves)) >= DOUBT:
        raise NotFinite(f"two scores lie {lead:.1g} apart: rounding could decide the answer")
    if not steady(locked, moves):
        raise NotFinite("what it does hangs on the last digits of its weights")
    return lead


@torch.no_grad()
def steady(locked: Locked, moves: Moves, draws: int = 4) -> bool:
    """Whether moves and answers stay the same where learned weights, and codes, are a little different.

    By far more than rounding makes of them: what hangs on less than that is not to be trusted. A
    machine that somebody wrote by hand, without weights, may well compare numbers exactly.
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


def accept(measured: list[Tightness]) -> None:
    """Refuse codes that a state could confuse."""
    for layer, each in enumerate(measured, start=1):
        if not math.isfinite(each.snap):
            raise NotFinite(f"layer {layer}: a state is not a finite number")
        if each.gate is not None and not each.gate >= DOUBT:
            raise NotFinite(f"layer {layer}: rounding could turn a gate over ({each.gate:.1g} from 0)")
        if each.gap is not None and not each.gap >= RATIO * max(each.snap, DOUBT * max(1, each.size)):
            raise NotFinite(
                f"layer {layer}: {each.codes} codes lie {each.gap:.3g} apart, and states up to "
                f"{each.snap:.3g} from them; the gap must be {RATIO:.0f} times that"
            )


def moves_of(locked: Locked, domain: Oracle) -> list[tuple[int, int]]:
    """Every state and token that some input of a domain leads through."""
    transitions, found = locked.machine.transitions, dict[tuple[int, int], None]()

    def following(nodes: Sequence[tuple[int, Any]]) -> list[list[tuple[int, tuple[int, Any]]]]:
        return [[leave(state, *move) for move in moves(domain, where)] for state, where in nodes]

    def leave(state: int, token: int, where: Any) -> tuple[int, tuple[int, Any]]:
        found[state, token] = None
        return token, (transitions[state][token], where)

    Walk((locked.machine.start, domain.start)).run(following, None)
    return list(found)
