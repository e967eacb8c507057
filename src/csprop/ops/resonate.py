"""Resonators: channels that turn by a fixed angle, and decay and are read as their inputs say.

entries    what a step gives each channel: z (two planes), κ, and r (two planes)   (B, T, 5, D)
           or a table of such entries, and `index` names one for each step         (E, 5, D)
theta      the angle of each channel                                               (D,)
h          the state, h_t = α e^{iθ} h_{t−1} + γ z_t                                (B, T, 2, D)
y          what is read of it, Re(conj(s) h_t)                                     (B, T, D)

with α = σ(κ), γ = √(1 − α²) and s = SiLU(r) on each plane. γ gives a state the size of its inputs,
whatever α is. A channel is a filter of one frequency, and the input decides on its memory,
1 / (1 − α) steps. The compiled kernel does all of it in one pass; everywhere else it is the scan
between torch operations.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from csprop.ops.backends import backend
from csprop.ops.checks import check_tensor, contiguous, fits, refuse_second_derivatives, traced
from csprop.ops.native.library import call, pack
from csprop.ops.scan import scan, wide

PARTS = 5
"""Numbers of an entry for each channel."""
MOST_SUMS = 4
"""Parts of a batch whose gradients of a table are summed apart, whatever the number of threads."""


def resonate(
    entries: Float[Tensor, "*E 5 D"],
    theta: Float[Tensor, " D"],
    h0: Float[Tensor, "B 2 D"],
    reset: Bool[Tensor, "B T"] | None = None,
    index: Int64[Tensor, "B T"] | None = None,
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B 2 D"]]:
    """Return y of every step, and the last state. A reset forgets the state before its step.

    Half precision is computed in float32, and what is read returned in half precision.
    """
    _check(entries, theta, h0, reset, index)
    given = wide(entries)
    turn, h0 = torch.stack([theta.cos(), theta.sin()]).to(given), h0.to(given)
    steps = entries.shape[1] if index is None else index.shape[1]
    if not steps:
        return entries.new_empty(h0.shape[0], 0, entries.shape[-1]), h0
    if backend() == "native" and not traced(given) and fits(given, turn, h0) and h0.numel():
        read = given if index is None else torch.cat(moves(given, turn), dim=1)
        y, last = _Resonators.apply(read, turn, h0, reset, index)
    else:
        if index is not None:
            given = F.embedding(index, given.flatten(1)).unflatten(2, given.shape[1:])
        a, u, reading = moves(given, turn)
        h, last = scan(a, u, h0, reset)
        y = (reading * h).sum(dim=2)
    return y.to(entries.dtype), last


def _check(
    entries: Tensor, theta: Tensor, h0: Tensor, reset: Tensor | None, index: Tensor | None
) -> None:
    sizes, device = ("batch", "time") if index is None else ("rows",), theta.device
    check_tensor("theta", theta, "floating-point", ("channels",))
    check_tensor("entries", entries, "floating-point", (*sizes, PARTS, theta.shape[0]), device)
    if index is not None:
        check_tensor("index", index, "int64", ("batch", "time"), device)
    batch, steps = entries.shape[:2] if index is None else index.shape
    check_tensor("state", h0, "floating-point", (batch, 2, theta.shape[0]), device)
    if reset is not None:
        check_tensor("reset", reset, "bool", (batch, steps), device)


def moves(
    entries: Float[Tensor, "*E 5 D"], turn: Float[Tensor, "2 D"]
) -> tuple[Float[Tensor, "*E 2 D"], Float[Tensor, "*E 2 D"], Float[Tensor, "*E 2 D"]]:
    """Return α e^{iθ}, γ z and s."""
    z, keep, reading = entries.split([2, 1, 2], dim=-2)
    alpha, rest = keep.sigmoid(), (-keep).sigmoid()
    # Where α rounds to 1 the root's slope has no bound, while γ has none to pass on.
    gamma = (rest * (1 + alpha)).clamp(min=torch.finfo(z.dtype).tiny).sqrt()
    return alpha * turn, gamma * z, F.silu(reading)


class _Resonators(torch.autograd.Function):
    """`resonate` in the compiled kernel."""

    @staticmethod
    def forward(
        ctx: Any, entries: Tensor, turn: Tensor, h0: Tensor, reset: Tensor | None, index: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """With an index, entries are the moves of a table, and nothing turns any more."""
        entries, turn, h0, reset, index = contiguous(entries, turn, h0, reset, index)
        if index is not None and not (0 <= int(index.min()) <= int(index.max()) < len(entries)):
            raise IndexError("an index is outside of the table")
        batch, steps = entries.shape[:2] if index is None else index.shape
        width, keep = turn.shape[1], any(ctx.needs_input_grad)
        y = entries.new_empty(batch, steps, width)
        h = entries.new_empty(batch, steps if keep else 2, 2, width)
        _call(batch, steps, entries, turn, h0, reset, index, keep=keep, y=y, h=h)
        # A copy of the index: somebody may write where torch does not look.
        ctx.save_for_backward(entries, turn, h0, reset, None if index is None else index.clone(), h)
        return y, h[:, -1 if keep else (steps - 1) % 2].clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        refuse_second_derivatives()
        entries, turn, h0, reset, index, h = ctx.saved_tensors
        g_y, g_last = contiguous(*grads)
        batch, steps, width = g_y.shape
        g_h0, given = torch.empty_like(h0), (batch, steps, entries, turn, h0, reset, index)
        known = {"keep": True, "h": h, "g_y": g_y, "g_last": g_last, "g_h0": g_h0}
        if index is None:
            g_entries, g_turn = torch.empty_like(entries), entries.new_empty(batch, 2, width)
            _call(*given, **known, g_entries=g_entries, g_turn=g_turn)
            return g_entries, g_turn.sum(dim=0), g_h0, None, None
        g_tables = entries.new_zeros(_parts(batch, index), *entries.shape)
        _call(*given, **known, g_entries=g_tables)
        return g_tables.sum(dim=0), None, g_h0, None, None


def _parts(batch: int, index: Tensor | None) -> int:
    return batch if index is None else min(batch, MOST_SUMS)


def _call(
    batch: int, steps: int, entries: Tensor, turn: Tensor, h0: Tensor, reset: Tensor | None,
    index: Tensor | None, **others: Tensor | bool,
) -> None:  # fmt: skip
    fields = {
        "wide": entries.dtype is torch.float64, "batch": _parts(batch, index), "rows": batch,
        "steps": steps, "width": turn.shape[1], "table": len(entries), "entries": entries,
        "turn": turn, "h0": h0, "which": index, "reset": reset,
    }  # fmt: skip
    arguments = pack("Resonate", fields | others)
    call("resonate", arguments.address, torch.get_num_threads())
