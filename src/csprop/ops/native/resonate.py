"""Resonators in the compiled kernel, with their adjoint."""

from typing import Any

import torch
from torch import Tensor

from csprop.ops.native.library import call, pack
from csprop.ops.native.tensors import contiguous, refuse_second_derivatives

MOST_PARTS = 4
"""Parts of a batch whose gradients of a table are summed apart, whatever the number of threads."""


class Resonators(torch.autograd.Function):
    """`csprop.ops.resonate` for tensors of one type on the CPU."""

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
    return batch if index is None else min(batch, MOST_PARTS)


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
