"""Checks of arguments that must be tensors of a kind, a shape and a device."""

from collections.abc import Sequence

import torch
from torch import Tensor

from csprop.errors import InputError, described

KINDS = {
    "int64": {torch.int64},
    "bool": {torch.bool},
    "floating-point": {torch.float32, torch.float64, torch.bfloat16, torch.float16},
}


def check_tensor(
    name: str,
    value: object,
    kind: str,
    shape: Sequence[int | str],
    device: torch.device | None = None,
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
