"""Locking: find the finite set of states that a trained model means.

1. `prune`: drop the channels that the answers do not need. What training left unused turns by odd
   angles, and never comes back to where it was.
2. `search`: breadth first from h_0 over all tokens; a state closer than a radius to a code is that
   code, any other is a new one, until nothing new comes.
3. `refine`: move every code to the mean of the states that snap to it.
4. `accept` only if the smallest gap between codes is many times the largest distance snapped.

A place is the number of a code for each layer; a move, a place and the token read there.
"""

import copy
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from csprop.errors import InputError
from csprop.exact.locked import MOST_STATES, Locked, NotFinite, at, nearest
from csprop.exact.models import Stepwise
from csprop.nn.block import Block
from csprop.nn.model import CSP
from csprop.tasks.base import UNLABELLED

RADII = (0.3, 0.15, 0.5)
"""To merge within, the likeliest first; a rotor's states lie on the unit sphere."""
RATIO = 5.0
"""The smallest gap between two codes over the largest distance snapped, at least."""
DOUBT = 1e-3
"""Far more than rounding can do: differences of distances or scores below it are not trusted."""
LEAD = 0.25
"""What pruning must leave of the lead of the right scores."""
BLUR = 1e-5
"""How much weights and codes are changed to see whether a machine hangs on their last digits."""
MOST_CODES = 512
PRUNING_ROWS = 1024
GLANCE_ROWS = 256

Inputs = Callable[[Any, int], Hashable | None]
"""(where in the domain, token) to where next, or None: such an input is left out of account."""
ANYWHERE = ""


def every_input(where: Hashable, token: int) -> Hashable:
    return ANYWHERE


@dataclass(frozen=True)
class Labelled:
    """Sequences and what is known of their answers."""

    tokens: Int64[Tensor, "N T"]
    labels: Int64[Tensor, "N T"]  # UNLABELLED where nothing is known

    def first(self, rows: int) -> "Labelled":
        return Labelled(self.tokens[:rows], self.labels[:rows])

    def judge(self, scores: Float[Tensor, "N T C"]) -> "Judgement":
        known = self.labels != UNLABELLED
        given, labels = scores[known], self.labels[known]
        if not len(labels):
            raise InputError("there are no labels to go by: give at least one")
        right = given.gather(1, labels[:, None])[:, 0]
        others = given.scatter(1, labels[:, None], float("-inf")).amax(dim=1)
        return Judgement(
            misses=int((given.argmax(dim=1) != labels).sum()),
            loss=float(F.cross_entropy(given, labels)),
            lead=float((right - others).min()),
        )


class Judgement(NamedTuple):
    """Scores against what is known."""

    misses: int
    loss: float
    lead: float
    """The least by which a right score leads: below 0 where one is missed."""

    def worse_than(self, before: "Judgement") -> bool:
        """Whether more is missed, or little is left of the lead."""
        thin = before.lead > 0 and self.lead < LEAD * before.lead
        return thin or self.misses > before.misses


@torch.no_grad()
def follow(
    model: Stepwise, kept: Bool[Tensor, "L D"], tokens: Int64[Tensor, "N T"]
) -> Float[Tensor, "N T C"]:
    """Scores with some channels held where they start."""
    start = model.initial_state()[0]
    state, scores = start.expand(len(tokens), *start.shape), []
    for column in tokens.unbind(1):
        state, said = model.step(
            state, column, lambda layer, h: torch.where(kept[layer], h, start[layer])
        )
        scores.append(said)
    return torch.stack(scores, dim=1)


Scores = Callable[[Bool[Tensor, "L D"], Int64[Tensor, "N T"]], Float[Tensor, "N T C"]]
"""(kept, tokens) to what `follow` gives for a model."""


def prune(scores: Scores, examples: Labelled, kept: Bool[Tensor, "L D"]) -> Bool[Tensor, "L D"]:
    """Drop what can be dropped: whole layers, then single channels, the least needed first.

    Nothing more may be missed, and the right scores must keep a part of their lead.
    """
    examples = examples.first(PRUNING_ROWS)
    glance = examples.first(GLANCE_ROWS)

    def judged(kept: Bool[Tensor, "L D"], over: Labelled) -> Judgement:
        return over.judge(scores(kept, over.tokens))

    def needed(fewer: Bool[Tensor, "L D"]) -> bool:
        both = zip((glance, examples), bases, strict=True)
        return any(judged(fewer, over).worse_than(before) for over, before in both)

    bases = [judged(kept, over) for over in (glance, examples)]
    layers = [_channel(kept, layer, slice(None)) for layer in range(len(kept))]
    for each in layers + _by_need(scores, examples, kept):
        fewer = kept & ~each
        if not torch.equal(fewer, kept) and not needed(fewer):
            kept = fewer
    return kept


def _by_need(
    scores: Scores, examples: Labelled, used: Bool[Tensor, "L D"]
) -> list[Bool[Tensor, "L D"]]:
    """Each of what is in use, that which is missed least first: by the loss without it."""
    glance = examples.first(GLANCE_ROWS)
    each = [_channel(used, *place) for place in used.nonzero().tolist()]
    losses = [glance.judge(scores(used & ~one, glance.tokens)).loss for one in each]
    return [each[i] for i in sorted(range(len(each)), key=losses.__getitem__)]


def thinned(scores: Scores, examples: Labelled, used: Bool[Tensor, "L D"]) -> Bool[Tensor, "L D"]:
    """Without the third that is needed least, whether or not the answers suffer."""
    order = _by_need(scores, examples, used)
    for one in order[: -(-len(order) // 3)]:
        used = used & ~one
    return used


def _channel(like: Bool[Tensor, "L D"], layer: int, channel: int | slice) -> Bool[Tensor, "L D"]:
    mask = torch.zeros_like(like)
    mask[layer, channel] = True
    return mask


@dataclass(frozen=True)
class Found:
    """What a search came upon."""

    codes: list[Float[Tensor, "S M D"]]
    places: Int64[Tensor, "N L"]  # of all moves
    tokens: Int64[Tensor, " N"]


@torch.no_grad()
def search(
    model: Stepwise,
    kept: Bool[Tensor, "L D"],
    symbols: int,
    radius: float,
    inputs: Inputs = every_input,
    begin: Hashable = ANYWHERE,
) -> Found:
    """The codes of every layer, in the order in which they are met."""
    start = model.initial_state()[0]  # (L, M, D)
    codes = [h[None] for h in start]
    nodes: list[tuple[tuple[int, ...], Hashable]] = [((0,) * len(codes), begin)]
    known, done = set(nodes), 0
    moved: list[tuple[tuple[int, ...], int]] = []

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
        found.append(numbers)
        return codes[layer][numbers]

    while done < len(nodes):
        batch = nodes[done : done + 256]
        done += len(batch)
        moves = [
            (place, token, after)
            for place, before in batch
            for token in range(symbols)
            if (after := inputs(before, token)) is not None
        ]
        if not moves:
            continue
        places = torch.tensor([place for place, _, _ in moves])
        tokens = torch.tensor([token for _, token, _ in moves])
        found: list[Tensor] = []
        model.step(at(codes, places), tokens, settle)
        for place, (before, token, after) in zip(torch.stack(found, 1).tolist(), moves, strict=True):
            moved.append((before, token))
            node = (tuple(place), after)
            if node not in known:
                known.add(node)
                nodes.append(node)
        if len(nodes) > MOST_STATES:
            raise NotFinite(f"does not close: {MOST_STATES:,} states, all {radius} apart, and more")
    moved = list(dict.fromkeys(moved))
    return Found(
        codes,
        torch.tensor([place for place, _ in moved]),
        torch.tensor([token for _, token in moved]),
    )


@torch.no_grad()
def refine(model: Stepwise, kept: Bool[Tensor, "L D"], found: Found, rounds: int = 10) -> Found:
    """Every code moved to the mean of what snaps to it, again and again; the tightest are the result.

    Angles that are all a little too large move all codes around together, away from h_0: hence the
    tightest, and not the last.
    """
    start = model.initial_state()[0]
    codes, best, least = list(found.codes), found.codes, math.inf
    for _ in range(rounds):
        means: list[Tensor] = []
        farthest = [
            float(nearest(h[None], each)[0][0, 0]) for h, each in zip(start, codes, strict=True)
        ]

        def settle(
            layer: int,
            h: Tensor,
            codes: list[Tensor] = codes,
            means: list[Tensor] = means,
            farthest: list[float] = farthest,
        ) -> Tensor:
            h, old = torch.where(kept[layer], h, start[layer]), codes[layer]
            distances, numbers = (each[:, 0] for each in nearest(h, old))
            arrived = torch.bincount(numbers, minlength=len(old))[:, None, None]
            sums = torch.zeros_like(old).index_add_(0, numbers, h)
            means.append(torch.where(arrived > 0, sums / arrived.clamp(min=1), old))
            farthest.append(float(distances.max()))
            return old[numbers]

        model.step(at(codes, found.places), found.tokens, settle)
        if max(farthest) < least:
            best, least = codes, max(farthest)
        codes = means
    return Found(best, found.places, found.tokens)


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


def tightness(locked: Locked, moves: Sequence[tuple[int, int]]) -> list[Tightness]:
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


def margin(locked: Locked, moves: Sequence[tuple[int, int]]) -> float:
    """The least by which the best score leads, as a part of the largest where that is above 1."""
    states, tokens = torch.tensor(moves).unbind(1)
    scores = locked.scores[states, tokens]
    best = scores.topk(2, dim=1).values
    leads = (best[:, 0] - best[:, 1]) / scores.abs().amax(dim=1).clamp(min=1)
    return float(torch.where(leads.isfinite(), leads, 0.0).min())


@torch.no_grad()
def steady(locked: Locked, moves: Sequence[tuple[int, int]], draws: int = 4) -> bool:
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


def lock(
    model: Stepwise,
    kept: Bool[Tensor, "L D"],
    symbols: int,
    radius: float,
    inputs: Inputs = every_input,
    begin: Hashable = ANYWHERE,
) -> tuple[Locked, list[Tightness]]:
    """The model locked onto the states that lie a radius apart, or NotFinite with the reason."""
    found = refine(model, kept, search(model, kept, symbols, radius, inputs, begin))
    locked = Locked(model, found.codes, kept, symbols)
    moves = moves_of(locked, inputs, begin)
    measured = tightness(locked, moves)
    try:
        accept(measured)
    except NotFinite as reason:
        raise NotFinite(str(reason), found.codes) from None
    if not (lead := margin(locked, moves)) >= DOUBT:
        raise NotFinite(f"two scores lie {lead:.1g} apart: rounding could decide the answer")
    if not steady(locked, moves):
        raise NotFinite("what it does hangs on the last digits of its weights")
    return locked, measured


def moves_of(locked: Locked, inputs: Inputs, begin: Hashable) -> list[tuple[int, int]]:
    """Every state and token that some input leads through."""
    following = locked.following.tolist()
    nodes, moves = [(0, begin)], {}
    known = set(nodes)
    for state, where in nodes:  # grows as new ones are found
        for token, reached in enumerate(following[state]):
            after = inputs(where, token)
            if after is None:
                continue
            moves[state, token] = None
            if (reached, after) not in known:
                known.add((reached, after))
                nodes.append((reached, after))
    return list(moves)
