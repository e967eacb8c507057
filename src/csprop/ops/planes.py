"""A state as M real planes, two for a complex number: what all of the recurrence does with it."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from csprop.ops.backends import exporting

LIMIT = 2.0**60
"""No modulus grows past this: a larger state is scaled back to it and keeps its direction.

2^60 lies far above what float32 can still add a number of size one to, and low enough that its
square, and its product with any sensible transition, stay finite.
"""

GRADIENT_LIMIT = 2.0**30
"""The same for the gradient that a state passes back: where a channel grows from nothing, |a| > 1 and
u = 0, its true gradient has no bound."""

ANGLE_LIMIT = 2.0**10
"""The same for an angle without a tanh. Where weights are huge, the rounding of W z + b is many turns:
a product of one row would turn a state elsewhere than a product of many, a stream elsewhere than a
batch. At this limit rounding moves an angle of float32 by a ten-thousandth."""

HALF_LIMIT = 2.0**15
"""The same for a state that is written in float16, whose largest number is 65,504."""


def wide(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """x in float32 at least: half precision holds neither a sum over many steps nor a small square."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def narrow(h: Float[Tensor, "*batch M D"], dtype: torch.dtype) -> Float[Tensor, "*batch M D"]:
    """h in a type of numbers, within what that holds."""
    return (saturate(h, HALF_LIMIT) if dtype is torch.float16 else h).to(dtype)


def saturate(h: Float[Tensor, "*batch M D"], limit: float = LIMIT) -> Float[Tensor, "*batch M D"]:
    """Scale moduli above the limit back to it; the direction, and everything smaller, is unchanged."""
    # Squares bounded from below before the root: its gradient is finite at 0.
    overshoot = (h / limit).square().sum(dim=-2, keepdim=True).clamp(min=1).sqrt()
    return h / overshoot


class _Bounded(torch.autograd.Function):
    generate_vmap_rule = True
    forward = staticmethod(lambda h: h.view_as(h))
    setup_context = staticmethod(lambda ctx, inputs, output: None)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return saturate(grads[0], GRADIENT_LIMIT)


def bounded(h: Float[Tensor, "*batch M D"]) -> Float[Tensor, "*batch M D"]:
    """h itself; its gradient saturates at GRADIENT_LIMIT."""
    return h if exporting() else _Bounded.apply(h)


def turn(a: Float[Tensor, "..."], h: Float[Tensor, "*batch M D"]) -> Float[Tensor, "*batch M D"]:
    """a · h, where a is a real factor (…, 1, D), a complex one (…, 2, D) or a matrix (…, M, M, D)."""
    if a.ndim > h.ndim:
        return (a * h[..., None, :, :]).sum(dim=-2)
    if a.shape[-2] == 1:
        return a * h
    re, im = a[..., :1, :], a[..., 1:, :]
    return re * h + im * torch.cat([-h[..., 1:, :], h[..., :1, :]], dim=-2)
