"""Locking: from a trained model to a finite machine.

A trained model approximates a finite set of states, the codes. A breadth-first search from h_0 tries
every token. A state within a radius of a code counts as that code, and any other state becomes a new
code, until there are no new ones. Then each code is moved to the mean of the states that snap to it.
The codes are accepted only if the smallest gap between codes is several times the largest snapping
distance, and no transition or answer depends on rounding.

A place is the number of a code in each layer.
"""

import copy
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from csprop.automata.walk import Endless, Oracle, Walk, moves
from csprop.cells.block import unit
from csprop.cells.rotor import RotorBlock
from csprop.cells.router import RouterBlock, lead
from csprop.cells.switch import SwitchBlock
from csprop.nn.model import CSP
from csprop.proof.certificate import LayerMargins
from csprop.proof.limits import BLUR, DOUBT, MOST_CODES, MOST_LOCKED, RATIO, NotFinite
from csprop.proof.locked import Locked, at, nearest
from csprop.proof.models import FromLayer, Stepwise
from csprop.training.pruned import Mask

RADII = (0.3, 0.15, 0.5)
"""The radii to try, the most promising first; a rotor's states lie on the unit sphere."""
AT_ONCE = 256  # the number of places whose transitions are computed together
REFINEMENTS = 10  # how many times each code is moved to the mean of its states
DRAWS = 4  # random changes of a model under which its machine must stay the same
Measured = tuple[tuple[LayerMargins, ...], float]
"""The distances in each layer, and the smallest margin of the best score over the second; relative to
the largest score of a transition, if that is above 1."""
Codes = list[Float[Tensor, "S M D"]]  # the codes of each layer, in the order of discovery
Moves = tuple[Int64[Tensor, "N ..."], Int64[Tensor, " N"]]
"""Transitions: places, or states of the machine, and the token that leaves each."""
Node = tuple[tuple[int, ...], Hashable]  # a place, and a state of the domain


def lock(model: Stepwise, kept: Mask, radius: float, domain: Oracle) -> tuple[Locked, Measured]:
    """Lock a model for the inputs of a domain, and measure its margins.

    Channels that are not kept stay at their initial value, and states closer than the radius are one.
    """
    return lock_at(model, _refine(model, kept, *_search(model, kept, radius, domain)), kept, domain)


def lock_at(
    model: Stepwise, codes: Sequence[Tensor], kept: Mask, domain: Oracle
) -> tuple[Locked, Measured]:
    """Lock a model at known codes, one list for each layer; otherwise as `lock`."""
    locked = Locked(model, codes, kept, domain.symbols)
    taken = covered_moves(locked, domain)
    measured = measure(locked, taken)
    check_margins(locked, measured, taken)
    return locked, measured


@torch.no_grad()
def _search(model: Stepwise, kept: Mask, radius: float, domain: Oracle) -> tuple[Codes, Moves]:
    """Find the codes that the inputs of a domain reach, and all transitions."""
    start = model.initial_state()[0]  # (L, M, D)
    codes = [h[None] for h in start]
    reached: list[Tensor] = []
    moved: dict[tuple[tuple[int, ...], int], None] = {}

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

    def following(nodes: Sequence[Node]) -> list[list[tuple[int, Node]]]:
        leaving = [moves(domain, where) for _, where in nodes]
        pairs = [
            (place, token) for (place, _), out in zip(nodes, leaving, strict=True) for token, _ in out
        ]
        if not pairs:
            return [[] for _ in nodes]
        moved.update(dict.fromkeys(pairs))
        reached.clear()
        places, tokens = map(torch.tensor, zip(*pairs, strict=True))
        model.step(at(codes, places), tokens, snap)
        arrived = map(tuple, torch.stack(reached, 1).tolist())
        return [[(token, (next(arrived), where)) for token, where in out] for out in leaving]

    try:
        Walk(((0,) * len(codes), domain.start)).run(following, MOST_LOCKED, AT_ONCE)
    except Endless:
        raise NotFinite(
            f"the model has more than {MOST_LOCKED:,} states that are {radius} apart"
        ) from None
    places, tokens = map(torch.tensor, zip(*moved, strict=True))
    return codes, (places, tokens)


@torch.no_grad()
def _refine(model: Stepwise, kept: Mask, codes: Codes, transitions: Moves) -> Codes:
    """Repeatedly move every code to the mean of the states that snap to it.

    Angles that are all slightly too large rotate all codes together, away from h_0. So the result is
    the round with the smallest snapping distance, not the last one.
    """
    start, (places, tokens) = model.initial_state()[0], transitions
    now, best, least = codes, codes, math.inf
    means: Codes = []
    farthest: list[float] = []

    def snap(layer: int, h: Tensor) -> Tensor:
        h, old = torch.where(kept[layer], h, start[layer]), now[layer]
        distances, numbers = (each[:, 0] for each in nearest(h, old))
        arrived = torch.bincount(numbers, minlength=len(old))[:, None, None]
        sums = torch.zeros_like(old).index_add_(0, numbers, h)
        means.append(torch.where(arrived > 0, sums / arrived.clamp(min=1), old))
        farthest.append(float(distances.max()))
        return old[numbers]

    for _ in range(REFINEMENTS):
        farthest[:] = [
            float(nearest(h[None], each)[0].min()) for h, each in zip(start, now, strict=True)
        ]
        model.step(at(now, places), tokens, snap)
        if max(farthest) < least:
            best, least = now, max(farthest)
        now, means = means, []
    return best


def covered_moves(locked: Locked, domain: Oracle) -> Moves:
    """Return all transitions that inputs of a domain take, as states and tokens."""
    transitions, taken = locked.machine.transitions, dict[tuple[int, int], None]()

    def leave(node: tuple[int, Any]) -> Iterator[tuple[int, tuple[int, Any]]]:
        for token, where in moves(domain, node[1]):
            taken[node[0], token] = None
            yield token, (transitions[node[0]][token], where)

    Walk((locked.machine.start, domain.start)).run(lambda nodes: map(leave, nodes), None)
    states, tokens = torch.tensor(list(taken)).unbind(1)
    return states, tokens


def measure(locked: Locked, taken: Moves) -> Measured:
    """Return the margins of a locked model over some transitions.

    The transitions are computed again in reverse order, and must have the same results as before.
    """
    states, tokens = (each.flip(0) for each in taken)
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
    best = before.topk(2, dim=1).values
    leads = (best[:, 0] - best[:, 1]) / before.abs().amax(dim=1).clamp(min=1)
    return tuple(measured), float(torch.where(leads.isfinite(), leads, 0.0).min())


def check_margins(locked: Locked, measured: Measured, taken: Moves) -> None:
    """Raise NotFinite if rounding can confuse two states or change a decision."""
    layers, margin = measured
    try:
        _check_layers(layers)
    except NotFinite as reason:
        raise NotFinite(str(reason), locked.codes) from None
    if not margin >= DOUBT:
        raise NotFinite(f"two scores lie {margin:.1g} apart: rounding could decide the answer")
    _check_steady(locked, *taken)


def _check_layers(layers: Sequence[LayerMargins]) -> None:
    for layer, each in enumerate(layers, start=1):
        if not math.isfinite(each.snap):
            raise NotFinite(f"layer {layer}: a state is not finite")
        if each.gate is not None and not each.gate >= DOUBT:
            raise NotFinite(
                f"layer {layer}: rounding could switch a gate, a route or an angle (by {each.gate:.1g})"
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
    cells: Sequence[nn.Module] = ()  # where they are known
    if isinstance(network, FromLayer | CSP):
        cells = network.cells if isinstance(network, FromLayer) else network.layers

    def watch(layer: int, block: nn.Module) -> Callable[..., None]:
        mine = locked.kept[layer]
        held = (locked.codes[layer][places[:, layer]] != 0).any(dim=1)  # (N, D)

        def record(_module: Any, inputs: tuple[Tensor], scores: Tensor) -> None:
            if isinstance(block, RouterBlock):
                of_targets = lead(block.maps.detach(), dim=2).flatten(1)  # (K, D)
                chosen = of_targets[scores[:, 0].argmax(dim=1)][held]
                decided = torch.cat([lead(scores[:, 0], dim=1), chosen])
            else:
                decided = scores.expand(*scores.shape[:-1], len(mine)).abs()
            if isinstance(block, RotorBlock) and block.parts is not None:
                before = locked.codes[layer][places[:, layer], None]
                decided = torch.cat([decided, *_rounded(block, inputs[0], before, scores > 0)])
            decided = decided if isinstance(block, RouterBlock) else decided[..., mine]
            nearest = float(decided.amin()) if decided.numel() else math.inf
            distances[layer] = None if nearest == math.inf else nearest

        return record

    hooks = []
    for layer, block in enumerate(cells):
        if isinstance(block, RouterBlock | RotorBlock | SwitchBlock):
            deciding = block.keys if isinstance(block, RouterBlock) else block.gate
            hooks.append(deciding.register_forward_hook(watch(layer, block)))
    try:
        yield distances
    finally:
        for hook in hooks:
            hook.remove()


def _rounded(block: RotorBlock, inputs: Tensor, before: Tensor, kept: Tensor) -> Iterator[Tensor]:
    """Yield how sure the rounding is of the angles of a step, and of the phases that it leads to."""
    z = inputs.unflatten(2, (block.order, -1))
    yield block.sureness(block.angle(inputs))
    yield block.sureness(block.phase(torch.where(kept[:, :, None], before, unit(z))))


@torch.no_grad()
def _check_steady(locked: Locked, states: Tensor, tokens: Tensor) -> None:
    """Raise NotFinite if small random changes of weights and codes change a move or an answer.

    A model without weights, written by hand, may compare numbers exactly and is not changed.
    """
    generator = torch.Generator().manual_seed(0)
    for _ in range(DRAWS if any(True for _ in locked.parameters()) else 0):
        other = copy.deepcopy(locked)
        for values in (*other.parameters(), *other.codes):
            if values.is_floating_point():
                noise = torch.randn(values.shape, generator=generator).to(values)
                values.add_(BLUR * values.abs().clamp(min=1) * noise)
        places, scores, _ = other.leave(locked.places[states], tokens)
        same = torch.equal(places, locked.places[locked.following[states, tokens]])
        if not same or not torch.equal(scores.argmax(1), locked.scores[states, tokens].argmax(1)):
            raise NotFinite("its behaviour depends on the last digits of its weights")
