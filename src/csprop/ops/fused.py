"""A whole block as one torch operator: the compiled kernel, and matrix products where channels have gates
of their own.

z, state, coupled    the layer's input (B, T, 2, D), its first state (B, 2, D), what is coupled in
angle, gate          the projections W_θ and Linear of the paper, each a weight and a bias
skip, start          g, whose σ(g) scales the skip (D); where a state begins again after a reset (2, D)
theta, delta         what the projections give, (G, B·T / G, 1 or D)

Every parameter may have a leading dimension G: the rows then belong to G models, one after the other.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from csprop.ops import native
from csprop.ops.operators import contiguous, differentiable, operator

INPUTS = (
    "Tensor z, Tensor state, Tensor? reset, Tensor? coupled, Tensor? angle_weight, Tensor? angle_bias, "
    "Tensor gate_weight, Tensor gate_bias, Tensor? skip, Tensor start, "
    "str rotate, str angle, str decay, bool silu, bool norm"
)
TENSORS = 10  # of the inputs


def _block(
    z: Tensor, state: Tensor, reset: Tensor | None, coupled: Tensor | None,
    angle_weight: Tensor | None, angle_bias: Tensor | None, gate_weight: Tensor, gate_bias: Tensor,
    skip: Tensor | None, start: Tensor,
    rotate: str, angle: str, decay: str, silu: bool, norm: bool, keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    z, state, reset, coupled, skip, start = contiguous(z, state, reset, coupled, skip, start)
    rows = _rows(z, gate_weight)
    delta, theta = _project(rows, gate_weight, gate_bias), _project(rows, angle_weight, angle_bias)
    out, h = torch.empty_like(z), z.new_empty(len(z), z.shape[1] if keep else 1, 2, z.shape[3])
    native.block(
        **_shape(z, theta, delta, rotate, angle, decay, silu, norm), keep=keep,
        **_shared("angle", angle_weight, angle_bias), **_shared("gate", gate_weight, gate_bias),
        z=z, theta=theta, delta=delta, coupled=coupled, skip=skip, h0=state, start=start, reset=reset,
        out=out, h=h,
    )  # fmt: skip
    return out, h, theta, delta


def _rows(z: Tensor, gate_weight: Tensor) -> Tensor:
    groups = 1 if gate_weight.ndim == 2 else gate_weight.shape[0]
    return z.view(groups, -1, 2 * z.shape[3])


def _project(rows: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """(G, rows, 1 or D); what the channels share is left to the kernel to compute."""
    if weight is None:
        return rows.new_empty(rows.shape[0], 0, 0)
    if weight.shape[-2] == 1:
        return rows.new_empty(rows.shape[0], rows.shape[1], 1)
    rows = rows[..., : weight.shape[-1]]  # the printed angle sees Re z alone
    if weight.ndim == 2:
        return F.linear(rows, weight, bias)
    return torch.bmm(rows, weight.mT) if bias is None else torch.baddbmm(bias[:, None], rows, weight.mT)


def _shared(name: str, weight: Tensor | None, bias: Tensor | None) -> dict[str, Any]:
    """The projection, where it is the kernel's to compute."""
    if weight is None or weight.shape[-2] != 1:
        return {}
    weight, bias = contiguous(weight, bias)
    return {f"{name}_weight": weight, f"{name}_bias": bias, f"{name}_inputs": weight.shape[-1]}


def _shape(
    z: Tensor, theta: Tensor, delta: Tensor, rotate: str, angle: str, decay: str, silu: bool, norm: bool
) -> dict[str, int]:
    batch, steps, _, width = z.shape
    return {
        "wide": z.dtype is torch.float64, "batch": batch, "steps": steps, "width": width,
        "groups": delta.shape[0], "angles": theta.shape[2], "gates": delta.shape[2],
        "rotate": native.ROTATE[rotate], "bounded_angle": angle == "tanh",
        "decay": native.DECAY[decay], "silu": silu, "norm": norm,
    }  # fmt: skip


def _block_backward(
    g_out: Tensor, g_h: Tensor | None, h: Tensor, theta: Tensor, delta: Tensor,
    z: Tensor, state: Tensor, reset: Tensor | None, coupled: Tensor | None,
    angle_weight: Tensor | None, angle_bias: Tensor | None, gate_weight: Tensor, gate_bias: Tensor,
    skip: Tensor | None, start: Tensor,
    rotate: str, angle: str, decay: str, silu: bool, norm: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The gradients of z, state and coupled … start; an empty one for what was absent or had no part."""
    g_out, g_h, h, theta, delta = contiguous(g_out, g_h, h, theta, delta)
    z, state, reset, coupled, skip, start = contiguous(z, state, reset, coupled, skip, start)
    g_z, g_state, g_theta, g_delta = map(torch.empty_like, (z, state, theta, delta))
    gradients = {
        "g_coupled": coupled, "g_angle_weight": angle_weight, "g_angle_bias": angle_bias,
        "g_gate_weight": gate_weight, "g_gate_bias": gate_bias, "g_skip": skip,
        "g_start": None if reset is None else start,
    }  # fmt: skip
    gradients = {
        name: z.new_empty(0) if each is None else torch.empty_like(each, memory_format=torch.contiguous_format)
        for name, each in gradients.items()
    }
    own = {"angle": angle_weight, "gate": gate_weight}  # gates of each channel, for torch to project
    own = {name: each for name, each in own.items() if each is not None and each.shape[-2] != 1}
    native.block(
        **_shape(z, theta, delta, rotate, angle, decay, silu, norm), keep=True,
        **_shared("angle", angle_weight, angle_bias), **_shared("gate", gate_weight, gate_bias),
        z=z, theta=theta, delta=delta, coupled=coupled, skip=skip, h0=state, start=start, reset=reset,
        h=h, g_out=g_out, g_h=g_h, g_z=g_z, g_theta=g_theta, g_delta=g_delta, g_h0=g_state,
        **{name: g if g.numel() and name[2:].split("_")[0] not in own else None for name, g in gradients.items()},
    )  # fmt: skip
    for name, weight in own.items():
        g = g_theta if name == "angle" else g_delta
        _project_adjoint(g, z, g_z, weight, gradients[f"g_{name}_weight"], gradients[f"g_{name}_bias"])
    return g_z, g_state, *gradients.values()


def _project_adjoint(
    g: Tensor, z: Tensor, g_z: Tensor, weight: Tensor, g_weight: Tensor, g_bias: Tensor
) -> None:
    """Fill in the gradients of weight and bias, and add that of the rows to g_z."""
    seen = weight.shape[-1]
    rows, g_rows = (_rows(each, weight)[..., :seen] for each in (z, g_z))
    if weight.ndim == 2:
        g_rows[0].addmm_(g[0], weight)
        torch.mm(g[0].T, rows[0], out=g_weight)
    else:
        g_rows.baddbmm_(g, weight)
        torch.bmm(g.mT, rows, out=g_weight)
    if g_bias.numel():
        torch.sum(g, dim=1, out=g_bias.view(g.shape[0], -1))


def _fake(
    z: Tensor, state: Tensor, reset: Any, coupled: Any, angle_weight: Tensor | None, angle_bias: Any,
    gate_weight: Tensor, gate_bias: Any, skip: Any, start: Any, rotate: str, angle: str, decay: str,
    silu: bool, norm: bool, keep: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    batch, steps, _, width = z.shape
    groups = 1 if gate_weight.ndim == 2 else gate_weight.shape[0]
    theta = (groups, 0, 0)
    if angle_weight is not None:
        theta = (groups, batch * steps // groups, angle_weight.shape[-2])
    return (
        z.new_empty(z.shape),
        z.new_empty(batch, steps if keep else 1, 2, width),
        z.new_empty(theta),
        z.new_empty(groups, batch * steps // groups, gate_weight.shape[-2]),
    )


def _fake_backward(
    g_out: Any, g_h: Any, h: Any, theta: Any, delta: Any,
    z: Tensor, state: Tensor, reset: Any, coupled: Any, *rest: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    given = (z, state, coupled, *rest[:5], None if reset is None else rest[5])
    return tuple(z.new_empty((0,) if each is None else each.shape) for each in given)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, h, theta, delta = output
    ctx.save_for_backward(h, theta, delta, *inputs[:TENSORS])
    ctx.options = inputs[TENSORS:-1]
    ctx.mark_non_differentiable(theta, delta)
    ctx.set_materialize_grads(False)


def _adjoint(how: Callable[..., Any]) -> Callable[..., Any]:
    def adjoint(ctx: Any, g_out: Tensor | None, g_h: Tensor | None, *_: None) -> tuple[Any, ...]:
        h, theta, delta, *inputs = ctx.saved_tensors
        if g_out is None:
            g_out = torch.zeros_like(inputs[0])
        g_z, g_state, *others = how(g_out, g_h, h, theta, delta, *inputs, *ctx.options)
        optional = (g if g.numel() else None for g in others)
        return g_z, g_state, None, *optional, *[None] * (len(ctx.options) + 1)

    return adjoint


block = differentiable(
    operator("block", f"({INPUTS}, bool keep) -> (Tensor, Tensor, Tensor, Tensor)", _block, _fake),
    _block,
    _save,
    _adjoint,
    (
        operator(
            "block_backward",
            f"(Tensor g_out, Tensor? g_h, Tensor h, Tensor theta, Tensor delta, {INPUTS}) "
            f"-> ({', '.join(['Tensor'] * 9)})",
            _block_backward,
            _fake_backward,
        ),
        _block_backward,
    ),
    rows=4,
)
"""(z … start, rotate, angle, decay, silu, norm, keep) to the output, the states or, unless `keep`, the last
one alone, theta and delta."""
