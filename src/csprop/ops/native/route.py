"""The recurrence of a router in the compiled kernel: states forward, and what reaches them backward.

With λ_t the whole gradient that reaches h_t = P_t h_{t−1}, and g_t that from outside,

    λ_t = g_t + P_{t+1}ᵀ λ_{t+1},      ∂L/∂P^k = Σ λ_t h_{t−1}ᵀ over all steps that choose k,

and P_tᵀ λ_t is the gradient of h_{t−1}, or of the start where a reset stands. The kernel computes the
λ, and torch the sums, as one product for each map.
"""

from typing import Any

import torch
from torch import Tensor

from csprop.ops.native.library import call, pack
from csprop.ops.native.tensors import refuse_second_derivatives


def hard(
    targets: Tensor, choice: Tensor, h0: Tensor, reset: Tensor | None, start: Tensor | None
) -> Tensor:
    """The states of `csprop.ops.route.hard`, without gradients."""
    h = h0.new_empty(*choice.shape, *h0.shape[1:])
    _call(h, targets=targets, choice=choice, h0=h0, reset=reset, start=start, h=h)
    return h


class Soft(torch.autograd.Function):
    """The states of `csprop.ops.route.soft`, with their gradients."""

    @staticmethod
    def forward(
        ctx: Any, maps: Tensor, choice: Tensor, h0: Tensor, reset: Tensor | None, start: Tensor | None
    ) -> Tensor:
        h = h0.new_empty(*choice.shape, *h0.shape[1:])
        rows = maps.transpose(2, 3).contiguous()  # a row has the targets of one source
        _call(h, maps=rows, places=maps.shape[2], choice=choice, h0=h0, reset=reset, start=start, h=h)
        ctx.save_for_backward(rows, choice, h0, reset, start, h)
        return h

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        refuse_second_derivatives()
        rows, choice, h0, reset, start, h = ctx.saved_tensors
        count, groups, places, _ = rows.shape
        reaching, before = torch.empty_like(h), torch.empty_like(h)
        _call(
            h, maps=rows, places=places, choice=choice, reset=reset, g_h=grads[0], reaching=reaching,
            before=before,
        )  # fmt: skip
        earlier = torch.cat([h0[:, None], h[:, :-1]], dim=1)
        if reset is not None:
            earlier = torch.where(reset[:, :, None, None], start, earlier)
        order = choice.flatten().argsort(stable=True)
        sizes = torch.bincount(choice.flatten(), minlength=count).tolist()
        left, right = (
            each.flatten(0, 1)[order].view(-1, 2, groups, places).split(sizes)
            for each in (reaching, earlier)
        )  # for each map (steps, 2, G, m)
        g_maps = torch.stack(
            [torch.einsum("npgi,npgj->gij", *both) for both in zip(left, right, strict=True)]
        )
        g_h0, g_start = before[:, 0], None
        if reset is not None:
            g_start = (before * reset[:, :, None, None]).sum(dim=(0, 1))
            g_h0 = g_h0 * ~reset[:, :1, None]
        return g_maps, None, g_h0, None, g_start


def _call(like: Tensor, **arguments: Any) -> None:
    """Call the kernel with the fields of `Route` that are not the same in every call."""
    batch, steps, _, width = like.shape
    fields = {"wide": like.dtype is torch.float64, "batch": batch, "steps": steps, "width": width}
    for name, value in arguments.items():
        fields[name] = value.contiguous() if isinstance(value, Tensor) else value
    packed = pack("Route", fields)
    call("route", packed.address, torch.get_num_threads())
