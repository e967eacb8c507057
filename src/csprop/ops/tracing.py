"""Whether a computation is being recorded rather than run."""

import torch


def traced() -> bool:
    """Whether compile, export, vmap, or a mode such as that of fake tensors has to see the operations."""
    return (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack() > 0
    )
