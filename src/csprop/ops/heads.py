"""The recurrences of a Tracker's heads: products of reflections, and shares of places.

N heads of a kind lie side by side in the last dimension. Where a reset stands, a head starts again
before that step: from the identity, or with everything in its first place.

turns      H_t = S_R … S_1 H_{t−1},  S = I − 2 v vᵀ,  v = u / |u|
           u: R vectors for each step (B, T, R, m, N);  H: orthogonal matrices (B, T, m, m, N)
places     h_t = y² / Σ y²,  y = A h_{t−1},  A = softmax of the logits over the targets
           logits (B, T, target, source, N);  h: shares that add up to 1 (B, T, p, N)

Squaring makes a large share larger: shares that are nearly all in one place move there entirely.
The compiled kernel does each in one pass, for orders 2 to 5 and 2 to 6 places. The loops below are the
specification, and do the rest.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from csprop.ops.backends import backend
from csprop.ops.checks import contiguous, fits, refuse_second_derivatives, traced
from csprop.ops.native.library import call, pack

ORDERS, PLACES = range(2, 6), range(2, 7)
"""The sizes that the kernel knows."""
TINY = 1e-20
"""What keeps the length of a vector from 0."""


def turns(
    u: Float[Tensor, "B T R m N"],
    h0: Float[Tensor, "B m m N"],
    reset: Bool[Tensor, "B T"] | None = None,
) -> Float[Tensor, "B T m m N"]:
    """Return the matrices after every step."""
    if _natively(u, h0) and u.shape[3] in ORDERS:
        return _Recurrence.apply("turns", u, h0, reset)
    v, h, found = u * (u.square().sum(dim=3, keepdim=True) + TINY).rsqrt(), h0, []
    start = identity(h0)
    for step in range(u.shape[1]):
        h = _begin(h, start, reset, step)
        for each in v[:, step].unbind(1):
            h = h - 2 * each[:, :, None] * (each[:, :, None] * h).sum(dim=1, keepdim=True)
        found.append(h)
    return torch.stack(found, dim=1)


def places(
    logits: Float[Tensor, "B T p p N"],
    h0: Float[Tensor, "B p N"],
    reset: Bool[Tensor, "B T"] | None = None,
) -> Float[Tensor, "B T p N"]:
    """Return the shares after every step."""
    if _natively(logits, h0) and logits.shape[2] in PLACES:
        return _Recurrence.apply("places", logits, h0, reset)
    maps, h, found = logits.softmax(dim=2), h0, []
    start = first_place(h0)
    for step in range(logits.shape[1]):
        y = (maps[:, step] * _begin(h, start, reset, step)[:, None]).sum(dim=2).square()
        h = y / y.sum(dim=1, keepdim=True)
        found.append(h)
    return torch.stack(found, dim=1)


def identity(like: Float[Tensor, "B m m N"]) -> Float[Tensor, "B m m N"]:
    """Return the matrices before the first step."""
    eye = torch.eye(like.shape[1], dtype=like.dtype, device=like.device)
    return eye[:, :, None].expand_as(like)


def first_place(like: Float[Tensor, "B p N"]) -> Float[Tensor, "B p N"]:
    """Return the shares before the first step."""
    eye = torch.eye(like.shape[1], dtype=like.dtype, device=like.device)
    return eye[0][:, None].expand_as(like)


def _begin(h: Tensor, start: Tensor, reset: Tensor | None, step: int) -> Tensor:
    if reset is None:
        return h
    return torch.where(reset[:, step].reshape(-1, *[1] * (h.ndim - 1)), start, h)


def _natively(inputs: Tensor, h0: Tensor) -> bool:
    return backend() == "native" and not traced(inputs) and fits(inputs, h0) and inputs.numel() > 0


class _Recurrence(torch.autograd.Function):
    """`turns` or `places` in the compiled kernel; `inputs` are the vectors or the logits."""

    @staticmethod
    def forward(ctx: Any, name: str, inputs: Tensor, h0: Tensor, reset: Tensor | None) -> Tensor:
        inputs, h0, reset = contiguous(inputs, h0, reset)
        h = inputs.new_empty(*inputs.shape[:2], *h0.shape[1:])
        maps = torch.empty_like(inputs) if name == "places" else None  # the softmax of the logits
        _call(name, inputs, reset=reset, h0=h0, h=h, maps=maps)
        ctx.name = name
        ctx.save_for_backward(inputs, h0, reset, h, maps)
        return h

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        refuse_second_derivatives()
        inputs, h0, reset, h, maps = ctx.saved_tensors
        (g_h,), g_inputs, g_h0 = contiguous(*grads), torch.empty_like(inputs), torch.empty_like(h0)
        known = {"reset": reset, "h0": h0, "h": h, "maps": maps}
        _call(ctx.name, inputs, **known, g_h=g_h, g_inputs=g_inputs, g_h0=g_h0)
        return None, g_inputs, g_h0, None


def _call(name: str, inputs: Tensor, **tensors: Tensor | None) -> None:
    batch, steps, first, second, width = inputs.shape
    sizes = {"size": second, "reflections": first, "wide": inputs.dtype is torch.float64}
    sizes |= {"batch": batch, "steps": steps, "width": width, "inputs": inputs}
    arguments = pack("Heads", sizes | tensors)
    call(name, arguments.address, torch.get_num_threads())
