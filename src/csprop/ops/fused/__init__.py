"""Blocks, one after the other, in the compiled kernel, with matrix products where channels have gates
of their own.

    calls.py          forward and adjoint: structures filled in, the kernel called
    autograd.py       what the forward keeps for the adjoint, and gradients in the order of arguments
    registration.py   the same as a torch operator: what compile, export and vmap see

An operator's way through the dispatcher and back into Python costs a quarter of a millisecond, so that
where nobody traces the same functions run as a plain `autograd.Function`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from csprop.ops import devices
from csprop.ops.fused.autograd import Direct
from csprop.ops.fused.calls import flattened
from csprop.ops.fused.registration import operator
from csprop.ops.native.tensors import Layer
from csprop.ops.options import KernelOptions


def blocks(
    z: Tensor,
    state: Tensor,
    reset: Tensor | None,
    coupled: Tensor | None,
    layers: Sequence[Layer],
    options: KernelOptions,
) -> tuple[Tensor, Tensor]:
    """The last layer's output (B, T, 2, D) and all layers' last states (L, B, 2, D).

    `z` is the first layer's input and `coupled` what is added to its recurrence, (B, T, 2, D); `state`
    has the layers' first states, (L, B, 2, D); where `reset` (B, T) is true a state starts again. Only
    for what fits the kernel: `csprop.nn.kernel` decides that.
    """
    parameters, keep = flattened(layers), torch.is_grad_enabled()
    if devices.traced():
        out, h, *_ = operator(z, state, reset, coupled, parameters, *options, keep)
    else:
        out, h, *_ = Direct.apply(options, keep, z, state, reset, coupled, *parameters)
    return out, h[:, :, -1]
