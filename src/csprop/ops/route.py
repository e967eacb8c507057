"""The recurrence of a router, h_t = P_t h_{t−1}: the content of a place moves to another.

maps       P^k, one for each k; a column says where the content of one place goes:
           maps[k, g, target, source], group by group                          (K, G, m, m)
targets    the same where every column has a single 1: the channel to which
           the content of each channel goes                                    (K, D), D = G · m
choice     which map a step applies                                            (B, T)
weights    in place of a choice, how much of each map is in P_t                (B, T, K)
start      h_0, where a reset begins again                                     (2, D)

`soft` is what a router trains with, `hard` what it is otherwise. `reference` is the specification of
both: a loop over time, with matrices. `places` has them in torch; the compiled kernel does `hard`
without gradients, and `soft` unless maps are mixed.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from csprop.ops import devices, places
from csprop.ops.backends import backend, exporting
from csprop.ops.native import route as native
from csprop.ops.native.tensors import fits
from csprop.ops.operators import register
from csprop.ops.over_time import over_time


def reference(
    maps: Float[Tensor, "K G m m"],
    weights: Float[Tensor, "B T K"],
    h0: Float[Tensor, "B 2 D"],
    reset: Bool[Tensor, "B T"] | None = None,
    start: Float[Tensor, "2 D"] | None = None,
) -> Float[Tensor, "B T 2 D"]:
    """All states, by the definition."""
    groups = maps.shape[1]

    def step(
        h: Tensor, weights: Tensor, reset: Tensor | None, start: Tensor | None, maps: Tensor
    ) -> Tensor:
        h = _begin(h, reset, start)
        matrices = torch.einsum("bk,kgij->bgij", weights, maps)
        return torch.einsum("bgij,bpgj->bpgi", matrices, h.unflatten(2, (groups, -1))).flatten(2)

    return over_time(step, h0, weights, reset, fixed=(start, maps))


def _begin(h: Tensor, reset: Tensor | None, start: Tensor | None) -> Tensor:
    """The contents before they move, begun again where a reset stands."""
    return h if reset is None or start is None else torch.where(reset[:, None, None], start, h)


def soft(
    maps: Float[Tensor, "K G m m"],
    choice: Int64[Tensor, "B T"],
    h0: Float[Tensor, "B 2 D"],
    reset: Bool[Tensor, "B T"] | None = None,
    start: Float[Tensor, "2 D"] | None = None,
    weights: Float[Tensor, "B T K"] | None = None,
) -> Float[Tensor, "B T 2 D"]:
    """All states, with gradients; `weights` say the choice where it is to be learned too."""
    if weights is None and _natively(maps, h0, start) and choice.numel():
        return native.Soft.apply(maps, choice, h0, reset, start)
    if weights is None:
        weights = ones_at(choice, len(maps), h0)
    compute = reference if backend() == "reference" else places.soft
    with _unrounded(h0):
        return compute(maps, weights, h0, reset, start)


def hard(
    targets: Int64[Tensor, "K D"],
    choice: Int64[Tensor, "B T"],
    h0: Float[Tensor, "B 2 D"],
    reset: Bool[Tensor, "B T"] | None = None,
    start: Float[Tensor, "2 D"] | None = None,
) -> Float[Tensor, "B T 2 D"]:
    """All states, where every column has a single 1."""
    if exporting():

        def step(h: Tensor, to: Tensor, *begun: Tensor | None) -> Tensor:
            to = to[:, None].expand(-1, 2, -1)
            return torch.zeros_like(h).scatter_add(2, to, _begin(h, *begun))

        return over_time(step, h0, targets[choice], reset, fixed=[start])
    if backend() == "reference":
        # One group of all channels: a 1 in the row of its target for each source.
        maps = ones_at(targets, h0.shape[2], h0).transpose(1, 2)[:, None]
        with _unrounded(h0):
            return reference(maps, ones_at(choice, len(targets), h0), h0, reset, start)
    given = [each for each in (h0, start) if each is not None]
    learned = torch.is_grad_enabled() and any(each.requires_grad for each in given)
    if not learned and torch.compiler.is_compiling():  # whose programs have no length
        return _hard(targets, choice, h0, reset, start)
    if not learned and _natively(*given) and choice.numel():
        return native.hard(targets, choice, h0, reset, start)
    return places.hard(targets, choice, h0, reset, start)


def _unrounded(h: Tensor) -> AbstractContextManager[object]:
    """Without autocast, whose products would round the contents to half precision at every step."""
    device = h.device.type
    known = torch.amp.is_autocast_available(device)
    return torch.autocast(device, enabled=False) if known else nullcontext()


def _without_gradients(
    targets: Tensor,
    choice: Tensor,
    h0: Tensor,
    reset: Tensor | None,
    start: Tensor | None,
) -> Tensor:
    compute = native.hard if _natively(h0, start) and choice.numel() else places.hard
    return compute(targets, choice, h0, reset, start)


_hard = register(
    "route_hard",
    "(Tensor targets, Tensor choice, Tensor h0, Tensor? reset, Tensor? start) -> Tensor",
    _without_gradients,
    lambda targets, choice, h0, *others: h0.new_empty(*choice.shape, *h0.shape[1:]),
)


def ones_at(
    places: Int64[Tensor, "*batch"], count: int, like: Float[Tensor, "..."]
) -> Float[Tensor, "*batch count"]:
    """A 1 at each place and 0 elsewhere. Unlike `F.one_hot`, it can be mapped over by vmap."""
    return (places[..., None] == torch.arange(count, device=places.device)).to(like)


def _natively(first: Tensor, *others: Tensor | None) -> bool:
    return backend() == "native" and not devices.traced() and fits(first, *others)
