"""Resonators in the compiled kernel, with their adjoint."""

from typing import Any

import torch
from torch import Tensor

from csprop.ops.native.layout import Resonate
from csprop.ops.native.library import address, library, pack
from csprop.ops.native.tensors import contiguous, pointer, refuse_second_derivatives

MOST_PARTS = 4
"""Parts of a batch whose gradients of a table are summed apart, whatever the number of threads."""


class Resonators(torch.autograd.Function):
    """What `csprop.ops.resonate` describes, of tensors of one type on the CPU."""

    @staticmethod
    def forward(
        ctx: Any, entries: Tensor, turn: Tensor, h0: Tensor, reset: Tensor | None, index: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        entries, turn, h0, reset, index = contiguous(entries, turn, h0, reset, index)
        batch, steps = entries.shape[:2] if index is None else index.shape
        width, keep = turn.shape[1], any(ctx.needs_input_grad)
        y = entries.new_empty(batch, steps, width)
        h = entries.new_empty(batch, steps if keep else 2, 2, width)
        _call(batch, steps, entries, turn, h0, reset, index, keep=keep, y=y, h=h)
        ctx.save_for_backward(entries, turn, h0, reset, index, h)
        return y, h[:, -1 if keep else (steps - 1) % 2].clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        refuse_second_derivatives()
        entries, turn, h0, reset, index, h = ctx.saved_tensors
        g_y, g_last = contiguous(*grads)
        batch, steps, width = g_y.shape
        g_turn, g_h0 = entries.new_empty(batch, 2, width), torch.empty_like(h0)
        parts = _parts(batch, index)
        g_entries = (
            torch.empty_like(entries) if index is None else entries.new_zeros(parts, *entries.shape)
        )
        _call(
            batch, steps, entries, turn, h0, reset, index, keep=True, h=h, g_y=g_y, g_last=g_last,
            g_entries=g_entries, g_turn=g_turn, g_h0=g_h0,
        )  # fmt: skip
        summed = g_entries if index is None else g_entries.sum(dim=0)
        return summed, g_turn.sum(dim=0), g_h0, None, None


def _parts(batch: int, index: Tensor | None) -> int:
    return batch if index is None else min(batch, MOST_PARTS)


def _call(
    batch: int, steps: int, entries: Tensor, turn: Tensor, h0: Tensor, reset: Tensor | None,
    index: Tensor | None, *, keep: bool, **others: Tensor,
) -> None:  # fmt: skip
    packed = pack(
        Resonate(
            wide=entries.dtype is torch.float64, batch=_parts(batch, index), rows=batch, steps=steps,
            width=turn.shape[1], table=len(entries), keep=keep, entries=entries.data_ptr(),
            turn=turn.data_ptr(), h0=h0.data_ptr(), index=pointer(index), reset=pointer(reset),
            **{name: each.data_ptr() for name, each in others.items()},
        )
    )  # fmt: skip
    if not library().csprop_resonate(address(packed), torch.get_num_threads()):
        raise MemoryError
