"""What torch operations have to know of a device, and of who is watching."""

import sys
from typing import Any

import torch


def synchronises(device: torch.device) -> bool:
    """Whether to look at a number of a tensor is to wait for its device: everywhere but on the CPU."""
    return device.type != "cpu"


def differentiated() -> bool:
    """Whether a transform of `torch.func` is at work that takes gradients, such as `grad`."""
    if torch.compiler.is_compiling() or not torch._C._are_functorch_transforms_active():
        return False
    functorch: Any = sys.modules["torch._C._functorch"]
    levels = functorch.get_interpreter_stack() or []
    return any(level.key() == functorch.TransformType.Grad for level in levels)


def traced() -> bool:
    """Whether compile, export, vmap, or a mode such as that of fake tensors has to see every step."""
    return (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack() > 0
    )
