"""The Triton kernel called with tensors: CUDA tensors of one type, float32 or float64."""

import math
from typing import Any

import torch
from torch import Tensor

from csprop.ops.checks import contiguous

NUMBERS = 4096
"""About how many numbers of a transition a program holds at once."""
WIDEST = 64
"""The most channels of a program: more programs hide more of the time that memory takes."""


def scan(a: Tensor, u: Tensor, h0: Tensor, reset: Tensor | None) -> Tensor:
    """Return all states; shapes as in `chunked`."""
    from csprop.ops.gpu import kernels  # which imports Triton

    a, u, h0, reset = contiguous(a, u, h0, reset)
    h = torch.empty_like(u)
    if u.numel():
        grid, sizes = _sizes(a, u, reset)
        with torch.accelerator.device_index(u.device.index):
            kernels.scan[grid](  # pyright: ignore[reportIndexIssue]
                a, u, h0, u if reset is None else reset, h, u.shape[1], u.shape[3], a.shape[-1], **sizes
            )
    return h


def adjoint(
    g_h: Tensor, a: Tensor, u: Tensor, h0: Tensor, h: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of a, u and h0."""
    from csprop.ops.gpu import kernels

    if not u.numel():
        return torch.zeros_like(a), torch.zeros_like(u), torch.zeros_like(h0)
    g_h, a, u, h0, h, reset = contiguous(g_h, a, u, h0, h, reset)
    grid, sizes = _sizes(a, u, reset)
    # A sum over channels is one of programs, added up in a fixed order.
    g_columns = grid[1] if sizes["SHARED"] else a.shape[-1]
    g_a, g_u, g_h0 = a.new_empty(*a.shape[:-1], g_columns), torch.empty_like(u), torch.empty_like(h0)
    with torch.accelerator.device_index(u.device.index):
        kernels.adjoint[grid](  # pyright: ignore[reportIndexIssue]
            g_h, a, u, h0, h, u if reset is None else reset, g_a, g_u, g_h0,
            u.shape[1], u.shape[3], a.shape[-1], g_columns, **sizes,
        )  # fmt: skip
    return (g_a.sum(-1, keepdim=True) if sizes["SHARED"] else g_a), g_u, g_h0


def _sizes(a: Tensor, u: Tensor, reset: Tensor | None) -> tuple[tuple[int, int], dict[str, Any]]:
    """Rows and blocks of channels, and what the kernel is compiled for."""
    batch, _, order, width = u.shape
    planes = math.prod(a.shape[2:-1])
    padded = _power(order)
    block = min(_power(width), WIDEST, max(1, NUMBERS // padded**2))
    sizes = {
        "M": order, "P": padded, "PLANES": planes, "SHARED": a.shape[-1] == 1 and width > 1,
        "RESET": reset is not None, "BLOCK": block,
        # A product and a sum are rounded one after the other, as in the interpreter that the kernel was
        # tested in, whatever the default of a version of Triton.
        "enable_fp_fusion": False,
    }  # fmt: skip
    return (batch, -(-width // block)), sizes


def _power(size: int) -> int:
    """The next power of two."""
    return 1 << (size - 1).bit_length()
