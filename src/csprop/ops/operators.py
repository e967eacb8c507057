"""The scan and the block as torch operators, so that compile, export and vmap know them.

    csprop::scan     the recurrence, by the backend in force; `torch` runs on any device
    csprop::block    a whole block on the CPU, by the compiled kernel

Both have an operator for their adjoint. A leading dimension is either of rows, B, or of models that are
computed side by side, G; vmap folds the mapped dimension into it, and every result is unfolded again.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.library import define, impl, register_autograd, register_fake, register_vmap

from csprop.ops import chunked, native
from csprop.ops.backends import backend


def _operator(name: str, schema: str, compute: Callable[..., Any], fake: Callable[..., Any]) -> None:
    define(f"csprop::{name}", schema, tags=torch.Tag.pt2_compliant_tag)
    impl(f"csprop::{name}", "default")(compute)
    register_fake(f"csprop::{name}")(fake)
    operator = getattr(torch.ops.csprop, name)

    def folded(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        def fold(value: Any, dim: int | None) -> Any:
            if not isinstance(value, Tensor):
                return value
            size = info.batch_size
            value = value.expand(size, *value.shape) if dim is None else value.movedim(dim, 0)
            return value.flatten(0, 1)

        results = operator(*map(fold, arguments, in_dims))
        if isinstance(results, Tensor):
            return results.unflatten(0, (info.batch_size, -1)), 0
        return tuple(each.unflatten(0, (info.batch_size, -1)) for each in results), (0,) * len(results)

    register_vmap(f"csprop::{name}")(folded)


# The scan.


def _scan(a: Tensor, u: Tensor, h0: Tensor, reset: Tensor | None) -> Tensor:
    if not _natively(a, u, h0):
        return chunked.scan(a, u, h0, reset)
    a, u, h0, reset = _contiguous(a, u, h0, reset)
    h = torch.empty_like(u)
    native.scan(**_scan_shape(a, u), a=a, u=u, h0=h0, reset=reset, h=h)
    return h


def _scan_backward(
    g_h: Tensor, a: Tensor, u: Tensor, h0: Tensor, h: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    if not _natively(g_h, a, u, h0, h):
        return chunked.adjoint(g_h, a, u, h0, h, reset)
    g_h, a, u, h0, h, reset = _contiguous(g_h, a, u, h0, h, reset)
    g_a, g_u, g_h0 = torch.empty_like(a), torch.empty_like(u), torch.empty_like(h0)
    native.scan(
        **_scan_shape(a, u), a=a, u=u, h0=h0, reset=reset, h=h, g_h=g_h, g_a=g_a, g_u=g_u, g_h0=g_h0
    )
    return g_a, g_u, g_h0


def _natively(*tensors: Tensor) -> bool:
    return backend() == "native" and native.fits(*tensors)


def _contiguous(*tensors: Tensor | None) -> list[Any]:
    return [None if tensor is None else tensor.contiguous() for tensor in tensors]


def _scan_shape(a: Tensor, u: Tensor) -> dict[str, int]:
    batch, steps, planes, columns = a.shape
    wide = int(u.dtype == torch.float64)
    return {
        "wide": wide, "batch": batch, "steps": steps, "width": u.shape[3],
        "planes": planes, "columns": columns,
    }  # fmt: skip


def _empty_like(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(tensor.new_empty(tensor.shape) for tensor in tensors)


_operator(
    "scan",
    "(Tensor a, Tensor u, Tensor h0, Tensor? reset) -> Tensor",
    _scan,
    lambda a, u, h0, reset: u.new_empty(u.shape),
)
_operator(
    "scan_backward",
    "(Tensor g_h, Tensor a, Tensor u, Tensor h0, Tensor h, Tensor? reset) -> (Tensor, Tensor, Tensor)",
    _scan_backward,
    lambda g_h, a, u, h0, h, reset: _empty_like(a, u, h0),
)


def _scan_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    a, u, h0, reset = inputs
    ctx.save_for_backward(a, u, h0, output, reset)


def _scan_adjoint(ctx: Any, g_h: Tensor) -> tuple[Any, ...]:
    return *torch.ops.csprop.scan_backward(g_h, *ctx.saved_tensors), None


register_autograd("csprop::scan", _scan_adjoint, setup_context=_scan_context)
scan = torch.ops.csprop.scan.default


# The block.

PARAMETERS = "Tensor? angle_weight, Tensor? angle_bias, Tensor gate_weight, Tensor gate_bias, Tensor? skip, Tensor start"
OPTIONS = "str rotate, str angle, str decay, bool silu, bool norm"


def _block(
    z: Tensor, state: Tensor, reset: Tensor | None, coupled: Tensor | None,
    angle_weight: Tensor | None, angle_bias: Tensor | None, gate_weight: Tensor, gate_bias: Tensor,
    skip: Tensor | None, start: Tensor,
    rotate: str, angle: str, decay: str, silu: bool, norm: bool, keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    z, state, reset, coupled, skip, start = _contiguous(z, state, reset, coupled, skip, start)
    batch, steps, _, width = z.shape
    rows = z.view(len(gate_weight), -1, 2 * width)
    delta = torch.baddbmm(gate_bias[:, None], rows, gate_weight.mT)
    theta = z.new_empty(len(rows), 0, 0)
    if angle_weight is not None:
        theta = _angles(rows, angle_weight, angle_bias)
    out, h = torch.empty_like(z), z.new_empty(batch, steps if keep else 1, 2, width)
    native.block_forward(
        **_block_shape(z, theta, delta, rotate, angle, decay, silu, norm), keep=keep,
        z=z, theta=theta, delta=delta, coupled=coupled, skip=skip, h0=state, start=start, reset=reset,
        out=out, h=h,
    )  # fmt: skip
    return out, h, theta, delta


def _angles(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    rows = rows[..., : weight.shape[2]]  # the printed angle sees Re z alone
    return torch.bmm(rows, weight.mT) if bias is None else torch.baddbmm(bias[:, None], rows, weight.mT)


def _block_shape(
    z: Tensor, theta: Tensor, delta: Tensor, rotate: str, angle: str, decay: str, silu: bool, norm: bool
) -> dict[str, int]:
    batch, steps, _, width = z.shape
    return {
        "wide": int(z.dtype == torch.float64), "batch": batch, "steps": steps, "width": width,
        "groups": len(delta), "angles": theta.shape[2], "gates": delta.shape[2],
        "rotate": native.ROTATE[rotate], "bounded_angle": int(angle == "tanh"),
        "decay": native.DECAY[decay], "silu": int(silu), "norm": int(norm),
    }  # fmt: skip


def _block_backward(
    g_out: Tensor, g_h: Tensor | None, h: Tensor, theta: Tensor, delta: Tensor,
    z: Tensor, state: Tensor, reset: Tensor | None, coupled: Tensor | None,
    angle_weight: Tensor | None, angle_bias: Tensor | None, gate_weight: Tensor, gate_bias: Tensor,
    skip: Tensor | None, start: Tensor,
    rotate: str, angle: str, decay: str, silu: bool, norm: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The gradients of z … start in their order; an empty one for what was absent or had no effect."""
    g_out, g_h, h, theta, delta = _contiguous(g_out, g_h, h, theta, delta)
    z, state, reset, coupled, skip, start = _contiguous(z, state, reset, coupled, skip, start)
    groups, batch, width = len(gate_weight), len(z), z.shape[3]
    none = z.new_empty(groups, 0)
    g_z, g_state, g_delta, g_theta = map(torch.empty_like, (z, state, delta, theta))
    g_coupled = none if coupled is None else torch.empty_like(z)
    g_skip = none if skip is None else z.new_empty(batch, width)
    g_start = none if reset is None else z.new_empty(batch, 2, width)
    native.block_backward(
        **_block_shape(z, theta, delta, rotate, angle, decay, silu, norm), keep=1,
        z=z, theta=theta, delta=delta, coupled=coupled, skip=skip, h0=state, start=start, reset=reset,
        h=h, g_out=g_out, g_h=g_h, g_z=g_z, g_theta=g_theta, g_delta=g_delta, g_h0=g_state,
        g_coupled=None if coupled is None else g_coupled,
        g_skip=None if skip is None else g_skip,
        g_start=None if reset is None else g_start,
    )  # fmt: skip
    if skip is not None:
        g_skip = g_skip.unflatten(0, (groups, -1)).sum(dim=1)
    if reset is not None:
        g_start = g_start.unflatten(0, (groups, -1)).sum(dim=1)
    rows, g_rows = (each.view(groups, -1, 2 * width) for each in (z, g_z))
    g_rows.baddbmm_(g_delta, gate_weight)
    g_gate_weight, g_gate_bias = torch.bmm(g_delta.mT, rows), g_delta.sum(dim=1)
    g_angle_weight = g_angle_bias = none
    if angle_weight is not None:
        seen = angle_weight.shape[2]
        g_rows[..., :seen].baddbmm_(g_theta, angle_weight)
        g_angle_weight = torch.bmm(g_theta.mT, rows[..., :seen])
        g_angle_bias = none if angle_bias is None else g_theta.sum(dim=1)
    return (
        g_z, g_state, g_coupled, g_angle_weight, g_angle_bias, g_gate_weight, g_gate_bias, g_skip, g_start
    )  # fmt: skip


def _fake_block(
    z: Tensor, state: Tensor, reset: Any, coupled: Any, angle_weight: Tensor | None, angle_bias: Any,
    gate_weight: Tensor, gate_bias: Any, skip: Any, start: Any, rotate: str, angle: str, decay: str,
    silu: bool, norm: bool, keep: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    batch, steps, _, width = z.shape
    groups, gates = gate_weight.shape[:2]
    rows = batch * steps // groups
    theta = (groups, 0, 0) if angle_weight is None else (groups, rows, angle_weight.shape[1])
    return (
        z.new_empty(z.shape),
        z.new_empty(batch, steps if keep else 1, 2, width),
        z.new_empty(theta),
        z.new_empty(groups, rows, gates),
    )


def _fake_block_backward(
    g_out: Tensor, g_h: Any, h: Any, theta: Any, delta: Any,
    z: Tensor, state: Tensor, reset: Any, coupled: Any, *rest: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    given = (z, state, coupled, *rest[:5], None if reset is None else rest[5])
    groups = len(rest[2])
    return tuple(z.new_empty((groups, 0) if each is None else each.shape) for each in given)


INPUTS = f"Tensor z, Tensor state, Tensor? reset, Tensor? coupled, {PARAMETERS}, {OPTIONS}"
_operator("block", f"({INPUTS}, bool keep) -> (Tensor, Tensor, Tensor, Tensor)", _block, _fake_block)
_operator(
    "block_backward",
    f"(Tensor g_out, Tensor? g_h, Tensor h, Tensor theta, Tensor delta, {INPUTS}) -> "
    f"({', '.join(['Tensor'] * 9)})",
    _block_backward,
    _fake_block_backward,
)


def _block_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, h, theta, delta = output
    ctx.save_for_backward(h, theta, delta, *inputs[:10])
    ctx.options = inputs[10:15]
    ctx.mark_non_differentiable(theta, delta)
    ctx.set_materialize_grads(False)


def _block_adjoint(ctx: Any, g_out: Tensor | None, g_h: Tensor | None, *_: None) -> tuple[Any, ...]:
    h, theta, delta, *inputs = ctx.saved_tensors
    if g_out is None:
        g_out = torch.zeros_like(inputs[0])
    gradients = torch.ops.csprop.block_backward(g_out, g_h, h, theta, delta, *inputs, *ctx.options)
    g_z, g_state, *others = gradients
    returned = [g_z, g_state, None, *others]
    absent = [each is None for each in inputs[:9]] + [inputs[2] is None]  # no reset, no start
    return *(None if lacks else g for g, lacks in zip(returned, absent, strict=True)), *[None] * 6


register_autograd("csprop::block", _block_adjoint, setup_context=_block_context)
block = torch.ops.csprop.block.default
