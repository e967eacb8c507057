"""The `torch` backend on other devices than the CPU: about 3√T steps, without synchronisation.

`chunked` tests if anything passed LIMIT, and waits for the answer; this file does not. The sequence is
cut into chunks of C ≈ √T steps as there.

1. All chunks run side by side from 0 and from each unit vector. With what comes out of the last step a
   chunk is one map of the state that it starts with, x ↦ L + P x. No number overflows: each state has
   an exponent e of its own, its value is x · 2^e, and e is 0 as long as |x| is below LIMIT.
2. These maps are chained, which gives the state that each chunk starts with, scaled back to LIMIT.
3. All chunks run side by side again, from where they start, as `reference` does, saturation included.

Where no modulus passes LIMIT the results equal the recurrence. Where one does, states are bounded and
keep their direction. Within a chunk they equal `reference` from the same start; a start comes from the
recurrence without a limit over the chunk before it, scaled back. The two differ only where a state
grows past LIMIT and shrinks again before its chunk ends.

The adjoint is the same backwards. Where a state was scaled back it passes tangentially, by the linear
map J of `chunked`, which step 1 has in each of its steps; its limit is GRADIENT_LIMIT.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from csprop.ops.chunked import forgetful, padded
from csprop.ops.planes import GRADIENT_LIMIT, LIMIT, saturate, turn

SMALLEST = 2.0**-126
"""The smallest number that float32 holds in full."""

Bends = tuple[Float[Tensor, "*batch M D"], Float[Tensor, "*batch 1 D"]]
"""Of J, for every step: the unit vector of a state at its limit, and by how much it was beyond."""


def scan(
    a: Float[Tensor, "B T *P #D"],
    u: Float[Tensor, "B T M D"],
    h0: Float[Tensor, "B M D"],
    reset: Bool[Tensor, "B T"] | None,
) -> Float[Tensor, "B T M D"]:
    return _recur(forgetful(a, reset), u, h0, LIMIT)


def adjoint(
    g_h: Float[Tensor, "B T M D"],
    a: Float[Tensor, "B T *P #D"],
    u: Float[Tensor, "B T M D"],
    h0: Float[Tensor, "B M D"],
    h: Float[Tensor, "B T M D"],
    reset: Bool[Tensor, "B T"] | None,
) -> tuple[Float[Tensor, "B T *P #D"], Float[Tensor, "B T M D"], Float[Tensor, "B M D"]]:
    """Return the gradients of a, u and h0."""
    kept = forgetful(a, reset)
    before = forgetful(torch.cat([h0[:, None], h[:, :-1]], dim=1), reset)
    over = ((turn(kept, before) + u) / LIMIT).square().sum(dim=2, keepdim=True).clamp(min=1).sqrt()
    is_matrix = a.ndim == 5
    back = kept.transpose(2, 3) if is_matrix else _conjugate(kept)
    following = padded(back[:, 1:], 1).flip(1)  # 0 after the end
    bends = (h / LIMIT).flip(1), over.flip(1)
    whole = _recur(following, g_h.flip(1), torch.zeros_like(h0), GRADIENT_LIMIT, bends).flip(1)
    if is_matrix:
        outer = whole[:, :, :, None] * before[:, :, None]
    else:
        outer = turn(_conjugate(before), whole) if a.shape[2] == 2 else whole * before
    return outer.sum_to_size(a.shape), whole, turn(back[:, 0], whole[:, 0])


def _conjugate(a: Tensor) -> Tensor:
    """Of complex numbers as two planes; real ones, in one plane, are as they are."""
    return torch.cat([a[..., :1, :], -a[..., 1:, :]], dim=-2)


def _recur(
    a: Float[Tensor, "B T *P #D"],
    u: Float[Tensor, "B T M D"],
    start: Float[Tensor, "B M D"],
    limit: float,
    bends: Bends | None = None,
) -> Float[Tensor, "B T M D"]:
    """All x of x_t = saturate(J_t (a_t · x_{t-1} + u_t))."""
    steps = u.shape[1]
    length = max(1, math.isqrt(steps - 1) + 1)
    chunks = -(-steps // length)

    def cut(x: Tensor) -> list[Tensor]:
        """Of every step of a chunk, all chunks."""
        return list(padded(x, chunks * length - steps).unflatten(1, (chunks, length)).unbind(2))

    turns, enters = cut(a), cut(u)
    bent: list[Bends | None] = [None] * length
    if bends is not None:
        bent = list(zip(cut(bends[0]), cut(bends[1]), strict=True))
    x = torch.stack(_starts(turns, enters, bent, start, limit), dim=1)
    states = []
    for turned, entering, bend in zip(turns, enters, bent, strict=True):
        x = saturate(_bent(turn(turned, x) + entering, bend), limit)
        states.append(x)
    return torch.stack(states, dim=2).flatten(1, 2)[:, :steps]


def _starts(
    turns: list[Tensor], enters: list[Tensor], bent: list[Bends | None], start: Tensor, limit: float
) -> list[Float[Tensor, "B M D"]]:
    """Return the state before each chunk."""
    batch, chunks, order, width = enters[0].shape
    if chunks == 1:
        return [start]
    # One state from 0, which u enters, and one from each unit vector.
    x = torch.eye(order + 1, order, dtype=start.dtype, device=start.device).roll(1, 0)
    x = x[None, None, :, :, None].expand(batch, chunks, -1, -1, width)
    exponent = torch.zeros_like(x[:, :, :, :1])
    for turned, entering, bend in zip(turns, enters, bent, strict=True):
        x = turn(turned[:, :, None], x)
        entered = x[:, :, :1] + entering[:, :, None] * torch.exp2(-exponent[:, :, :1])
        x = torch.cat([entered, x[:, :, 1:]], dim=2)
        x = _bent(x, None if bend is None else (bend[0][:, :, None], bend[1][:, :, None]))
        x, exponent = _normal(x, exponent)
    starts = [start]
    for each, shift in zip(x.unbind(1)[:-1], exponent.unbind(1)[:-1], strict=True):
        by = torch.cat([torch.ones_like(start[:, :1]), starts[-1]], dim=1)  # (B, 1 + M, D)
        each, shift = _normal(each * by[:, :, None], shift)
        top = shift.amax(dim=1, keepdim=True)
        whole = (each * torch.exp2(shift - top)).sum(dim=1)
        modulus = (whole / limit).square().sum(dim=1, keepdim=True).sqrt()
        starts.append(whole / torch.maximum(torch.exp2(-top[:, 0]), modulus).clamp(min=SMALLEST))
    return starts


def _bent(x: Tensor, bend: Bends | None) -> Tensor:
    """J x."""
    if bend is None:
        return x
    unit, over = bend
    tangential = (x - unit * (unit * x).sum(dim=-2, keepdim=True)) / over
    return torch.where(over > 1, tangential, x)


def _normal(x: Tensor, exponent: Tensor) -> tuple[Tensor, Tensor]:
    """The same numbers x · 2^exponent, the exponent as low as it may be, and at least 0."""
    size = x.abs().amax(dim=-2, keepdim=True) / LIMIT
    shift = torch.maximum(size.clamp(min=SMALLEST).log2().ceil(), -exponent)
    return x * torch.exp2(-shift), torch.where(size > 0, exponent + shift, 0)
