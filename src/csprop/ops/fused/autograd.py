"""What blocks keep for their adjoint, and the gradients in the order of the arguments.

autograd takes flat lists of tensors alone: here they get their names, and lose them again.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from csprop.ops.fused.calls import Inputs, Kept, backward, flattened, forward, layers_of
from csprop.ops.native.tensors import refuse_second_derivatives
from csprop.ops.options import KernelOptions

Adjoint = Callable[[Tensor, Tensor | None, Kept, Inputs, KernelOptions], Inputs]


def save(ctx: Any, given: Inputs, kept: Kept, options: KernelOptions) -> None:
    """For `gradients`."""
    *arguments, layers = given
    ctx.save_for_backward(*kept, *arguments, *flattened(layers))
    ctx.options = options
    ctx.mark_non_differentiable(kept.inner, kept.theta, kept.delta)
    ctx.set_materialize_grads(False)


def gradients(
    adjoint: Adjoint, ctx: Any, g_out: Tensor | None, g_h: Tensor | None
) -> tuple[list[Tensor | None], list[Tensor | None]]:
    """Of z, state, reset and coupled, and of the parameters; None for what had no part."""
    h, inner, theta, delta, z, state, reset, coupled, *parameters = ctx.saved_tensors
    given = Inputs(z, state, reset, coupled, layers_of(parameters))
    if g_out is None:
        g_out = torch.zeros_like(z)
    g = adjoint(g_out, g_h, Kept(h, inner, theta, delta), given, ctx.options)

    def present(each: Tensor | None) -> Tensor | None:
        return None if each is None or not each.numel() else each

    return [present(each) for each in g[:4]], [present(each) for each in flattened(g.layers)]


class Direct(torch.autograd.Function):
    """Blocks where nobody traces: out and what is kept, from flat arguments."""

    @staticmethod
    def forward(
        ctx: Any, options: KernelOptions, keep: bool, z: Tensor, state: Tensor, reset: Tensor | None,
        coupled: Tensor | None, *parameters: Tensor,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        given = Inputs(z, state, reset, coupled, layers_of(parameters))
        out, kept = forward(given, options, keep)
        save(ctx, given, kept, options)
        return out, *kept

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        refuse_second_derivatives()
        of_arguments, of_parameters = gradients(backward, ctx, *grads[:2])
        return None, None, *of_arguments, *of_parameters
