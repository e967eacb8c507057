"""Checks of tensors: of arguments, of what the kernel takes, and of what torch records."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from csprop.errors import InputError, described

KINDS = {
    "int64": {torch.int64},
    "bool": {torch.bool},
    "floating-point": {torch.float32, torch.float64, torch.bfloat16, torch.float16},
}


def check_tensor(
    name: str, value: object, kind: str, shape: Sequence[int | str], device: torch.device | None = None
) -> None:
    """Raise InputError unless it is a dense tensor of a kind of numbers, a shape and a device.

    A string in `shape` is the name of a dimension that may have any size.
    """
    if (
        isinstance(value, Tensor)
        and value.layout is torch.strided
        and not value.is_nested
        and value.dtype in KINDS[kind]
        and value.ndim == len(shape)
        and all(isinstance(a, str) or a == b for a, b in zip(shape, value.shape, strict=True))
        and (device is None or value.device == device)
    ):
        return
    wanted = f"({', '.join(str(size) for size in shape)})"
    where = "" if device is None else f" on {device}"
    raise InputError(
        f"{name} must be a dense {kind} tensor of shape {wanted}{where}; got {described(value)}"
    )


def fits(first: Tensor, *others: Tensor | None) -> bool:
    """Return True if the kernel can take these: on the CPU, in one precision that it knows."""
    dtype = first.dtype
    return (dtype is torch.float32 or dtype is torch.float64) and all(
        tensor is None
        or (tensor.is_cpu and tensor.dtype is dtype and type(tensor) in (Tensor, nn.Parameter))
        for tensor in (first, *others)
    )


def contiguous(*tensors: Tensor | None) -> list[Any]:
    return [None if tensor is None else tensor.contiguous() for tensor in tensors]


def traced(like: Tensor) -> bool:
    """Return True if compile, export, vmap or a dispatch mode has to see every operation.

    A tensor on the device `meta`, which has no values, is treated the same.
    """
    return (
        like.is_meta
        or torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack() > 0
    )


def refuse_second_derivatives() -> None:
    """Raise RuntimeError if a backward pass is recorded, to be differentiated itself."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise RuntimeError("no second derivatives here: use_backend('reference') has them")
