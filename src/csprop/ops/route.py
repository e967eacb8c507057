"""The recurrence of a router, h_t = P_t h_{t−1}: the content of a place moves to another.

maps       P^k, one for each k; a column says where the content of one place goes:
           maps[k, g, target, source], group by group                          (K, G, m, m)
targets    the same where every column has a single 1: the channel to which
           the content of each channel goes                                    (K, D), D = G · m
choice     the map that a step applies                                         (B, T)
weights    in place of a choice, the share of each map in P_t                  (B, T, K)
start      h_0, where a reset begins again                                     (2, D)

A router trains with `soft` and otherwise uses `hard`. `reference` is the specification of both: a loop
over time, with matrices. The compiled kernel does `hard` without gradients, and `soft` unless maps are
mixed; elsewhere they are torch operations.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from csprop.ops.backends import backend, exporting
from csprop.ops.checks import fits, refuse_second_derivatives, traced
from csprop.ops.scan import over_time


def reference(
    maps: Float[Tensor, "K G m m"],
    weights: Float[Tensor, "B T K"],
    h0: Float[Tensor, "B 2 D"],
    reset: Bool[Tensor, "B T"] | None = None,
    start: Float[Tensor, "2 D"] | None = None,
) -> Float[Tensor, "B T 2 D"]:
    """Return all states, by the definition."""
    groups = maps.shape[1]

    def step(
        h: Tensor, weights: Tensor, reset: Tensor | None, start: Tensor | None, maps: Tensor
    ) -> Tensor:
        h = _begin(h, reset, start)
        matrices = torch.einsum("bk,kgij->bgij", weights, maps)
        return torch.einsum("bgij,bpgj->bpgi", matrices, h.unflatten(2, (groups, -1))).flatten(2)

    return over_time(step, h0, weights, reset, fixed=(start, maps))


def _begin(h: Tensor, reset: Tensor | None, start: Tensor | None) -> Tensor:
    """Return the contents before they move, begun again where a reset stands."""
    return h if reset is None or start is None else torch.where(reset[:, None, None], start, h)


def soft(
    maps: Float[Tensor, "K G m m"],
    choice: Int64[Tensor, "B T"],
    h0: Float[Tensor, "B 2 D"],
    reset: Bool[Tensor, "B T"] | None = None,
    start: Float[Tensor, "2 D"] | None = None,
    weights: Float[Tensor, "B T K"] | None = None,
) -> Float[Tensor, "B T 2 D"]:
    """Return all states, with gradients; `weights` replace the choice where it is learned too."""
    if weights is None and choice.numel() and _natively(maps, h0, start):
        return _Soft.apply(maps, choice, h0, reset, start)
    if weights is None:
        weights = ones_at(choice, len(maps), h0)
    compute = reference if backend() == "reference" else _multiply
    with _unrounded(h0):
        return compute(maps, weights, h0, reset, start)


def _multiply(
    maps: Tensor, weights: Tensor, h0: Tensor, reset: Tensor | None, start: Tensor | None
) -> Tensor:
    """Return all states: contents spread over the maps, times all maps side by side."""
    count, groups, places, _ = maps.shape
    flat = maps.permute(1, 0, 3, 2).reshape(groups, count * places, places)  # (G, K m, m)
    batch, steps = weights.shape[:2]
    share = weights.transpose(0, 1)[:, None, :, None, :, None]  # (T, 1, B, 1, K, 1)
    h = h0.unflatten(2, (groups, places)).permute(2, 0, 1, 3)  # (G, B, 2, m)
    begin = None if start is None else start.unflatten(1, (groups, places)).transpose(0, 1)[:, None]
    states = []
    for t in range(steps):
        if reset is not None and begin is not None:
            h = torch.where(reset[:, t, None, None], begin, h)
        spread = (share[t] * h[:, :, :, None]).reshape(groups, 2 * batch, count * places)
        h = torch.bmm(spread, flat).unflatten(1, (batch, 2))
        states.append(h)
    if not states:
        return h0.new_empty(batch, 0, *h0.shape[1:])
    return torch.stack(states).permute(2, 0, 3, 1, 4).flatten(3)  # (B, T, 2, D)


def hard(
    targets: Int64[Tensor, "K D"],
    choice: Int64[Tensor, "B T"],
    h0: Float[Tensor, "B 2 D"],
    reset: Bool[Tensor, "B T"] | None = None,
    start: Float[Tensor, "2 D"] | None = None,
) -> Float[Tensor, "B T 2 D"]:
    """Return all states, where every column has a single 1."""
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
    learned = torch.is_grad_enabled() and any(
        each is not None and each.requires_grad for each in (h0, start)
    )
    if learned:
        return _compose(targets, choice, h0, reset, start)
    if torch.compiler.is_compiling():  # whose programs have no length
        from csprop.ops.operators import route_hard

        return route_hard(targets, choice, h0, reset, start)
    return compute_hard(targets, choice, h0, reset, start)


def compute_hard(
    targets: Tensor, choice: Tensor, h0: Tensor, reset: Tensor | None, start: Tensor | None
) -> Tensor:
    """Return the states of `hard`, without gradients."""
    if not (choice.numel() and _natively(h0, start)):
        return _compose(targets, choice, h0, reset, start)
    h = h0.new_empty(*choice.shape, *h0.shape[1:])
    _call(h, targets=targets, choice=choice, h0=h0, reset=reset, start=start, h=h)
    return h


def _compose(
    targets: Tensor, choice: Tensor, h0: Tensor, reset: Tensor | None, start: Tensor | None
) -> Tensor:
    """Return the states of `hard` by composing maps.

    The steps up to t are one map, a target for each channel. All of them are computed together, by
    composing neighbours, then neighbours of neighbours and so on, and applied to h_0 once.
    """
    steps = choice.shape[1]
    where = targets[choice]  # (B, T, D)
    begun = reset
    reach = 1
    while reach < steps:
        earlier, later = slice(None, -reach), slice(reach, None)
        joined = torch.gather(where[:, later], 2, where[:, earlier])
        if begun is not None:
            joined = torch.where(begun[:, later, None], where[:, later], joined)
            begun = torch.cat([begun[:, :reach], begun[:, later] | begun[:, earlier]], dim=1)
        where = torch.cat([where[:, :reach], joined], dim=1)
        reach *= 2
    content = h0[:, None].expand(-1, steps, -1, -1)
    if begun is not None and start is not None:
        content = torch.where(begun[:, :, None, None], start, content)
    index = where[:, :, None].expand(-1, -1, 2, -1)
    return torch.zeros_like(content).scatter_add(3, index, content)


def _unrounded(h: Tensor) -> AbstractContextManager[object]:
    """Leave out autocast, whose products would round the contents to half precision at every step."""
    device = h.device.type
    known = torch.amp.is_autocast_available(device)
    return torch.autocast(device, enabled=False) if known else nullcontext()


def ones_at(
    places: Int64[Tensor, "*batch"], count: int, like: Float[Tensor, "..."]
) -> Float[Tensor, "*batch count"]:
    """Return a 1 at each place and 0 elsewhere. Unlike `F.one_hot`, vmap can map over it."""
    return (places[..., None] == torch.arange(count, device=places.device)).to(like)


def _natively(first: Tensor, *others: Tensor | None) -> bool:
    return backend() == "native" and not traced(first) and fits(first, *others)


class _Soft(torch.autograd.Function):
    """The states of `soft` in the compiled kernel.

    With λ_t the whole gradient that reaches h_t = P_t h_{t−1}, and g_t the gradient from outside,

        λ_t = g_t + P_{t+1}ᵀ λ_{t+1},      ∂L/∂P^k = Σ λ_t h_{t−1}ᵀ over all steps that choose k,

    and P_tᵀ λ_t is the gradient of h_{t−1}, or of the start where a reset stands. The kernel computes
    the λ, and torch the sums, as one product for each map.
    """

    @staticmethod
    def forward(
        ctx: Any, maps: Tensor, choice: Tensor, h0: Tensor, reset: Tensor | None, start: Tensor | None
    ) -> Tensor:
        h = h0.new_empty(*choice.shape, *h0.shape[1:])
        rows = maps.transpose(2, 3).contiguous()  # a row has the targets of one source
        _call(h, maps=rows, places=maps.shape[2], choice=choice, h0=h0, reset=reset, start=start, h=h)
        ctx.save_for_backward(rows, choice, h0, reset, start, h)
        return h

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        refuse_second_derivatives()
        rows, choice, h0, reset, start, h = ctx.saved_tensors
        count, groups, places, _ = rows.shape
        reaching, before = torch.empty_like(h), torch.empty_like(h)
        _call(
            h, maps=rows, places=places, choice=choice, reset=reset, g_h=grads[0], reaching=reaching,
            before=before,
        )  # fmt: skip
        earlier = torch.cat([h0[:, None], h[:, :-1]], dim=1)
        if reset is not None:
            earlier = torch.where(reset[:, :, None, None], start, earlier)
        order = choice.flatten().argsort(stable=True)
        sizes = torch.bincount(choice.flatten(), minlength=count).tolist()
        left, right = (
            each.flatten(0, 1)[order].view(-1, 2, groups, places).split(sizes)
            for each in (reaching, earlier)
        )  # for each map (steps, 2, G, m)
        g_maps = torch.stack(
            [torch.einsum("npgi,npgj->gij", *both) for both in zip(left, right, strict=True)]
        )
        g_h0, g_start = before[:, 0], None
        if reset is not None:
            g_start = (before * reset[:, :, None, None]).sum(dim=(0, 1))
            g_h0 = g_h0 * ~reset[:, :1, None]
        return g_maps, None, g_h0, None, g_start


def _call(like: Tensor, **arguments: Any) -> None:
    """Call the kernel with the fields of `Route` that are not the same in every call."""
    from csprop.ops.native.library import call, pack

    batch, steps, _, width = like.shape
    fields = {"wide": like.dtype is torch.float64, "batch": batch, "steps": steps, "width": width}
    for name, value in arguments.items():
        fields[name] = value.contiguous() if isinstance(value, Tensor) else value
    packed = pack("Route", fields)
    call("route", packed.address, torch.get_num_threads())
