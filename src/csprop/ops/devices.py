"""Facts about a device, and about transforms and modes of torch that are at work."""

import sys
from typing import Any

import torch


def synchronises(device: torch.device) -> bool:
    """Return True if reading a number of a tensor waits for its device: everywhere but on the CPU."""
    return device.type != "cpu"


def differentiated() -> bool:
    """Return True inside a transform of `torch.func` that takes gradients, such as `grad`."""
    if torch.compiler.is_compiling() or not torch._C._are_functorch_transforms_active():
        return False
    functorch: Any = sys.modules["torch._C._functorch"]
    levels = functorch.get_interpreter_stack() or []
    return any(level.key() == functorch.TransformType.Grad for level in levels)


def traced() -> bool:
    """Return True if compile, export, vmap or a dispatch mode has to see every operation."""
    return (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack() > 0
    )
