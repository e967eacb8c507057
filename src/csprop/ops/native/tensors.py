"""Helpers of every call of the kernel with tensors.

Tensors go in as pointers: contiguous, on the CPU, all of them float32 or all of them float64.
"""

from typing import Any

import torch
from torch import Tensor


def fits(first: Tensor, *others: Tensor | None) -> bool:
    """Return True if the kernel can take these: on the CPU, in one precision that it knows."""
    dtype = first.dtype
    return (dtype is torch.float32 or dtype is torch.float64) and all(
        tensor is None or (tensor.is_cpu and tensor.dtype is dtype) for tensor in (first, *others)
    )


def contiguous(*tensors: Tensor | None) -> list[Any]:
    return [None if tensor is None else tensor.contiguous() for tensor in tensors]


def refuse_second_derivatives() -> None:
    """Raise RuntimeError if a backward pass is recorded, to be differentiated itself."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise RuntimeError("no second derivatives here: use_backend('reference') has them")
