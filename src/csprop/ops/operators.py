"""The scan as a torch operator, with its adjoint: one node for compile, export and vmap."""

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from csprop.ops import chained, chunked, devices, gpu
from csprop.ops.backends import asked_for, backend
from csprop.ops.gpu import launch
from csprop.ops.native import tensors
from csprop.ops.native.library import call, pack


def register(name: str, schema: str, compute: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    """Register `csprop::name`; `fake` makes results of the right shape."""
    torch.library.define(f"csprop::{name}", schema, tags=torch.Tag.pt2_compliant_tag)
    torch.library.impl(f"csprop::{name}", "default", compute)
    torch.library.register_fake(f"csprop::{name}", fake)
    return getattr(torch.ops.csprop, name).default


def stacked(value: Tensor | None, dim: int | None, size: int) -> Any:
    """With the dimension that vmap maps in front."""
    if value is None:
        return None
    return value.expand(size, *value.shape) if dim is None else value.movedim(dim, 0)


def folded(value: Tensor | None, dim: int | None, size: int, rows: int = 0) -> Any:
    """With the dimension that vmap maps made part of the rows."""
    if value is None:
        return None
    return stacked(value, dim, size).movedim(0, rows).flatten(rows, rows + 1)


def _scan(a: Tensor, u: Tensor, h0: Tensor, reset: Tensor | None) -> Tensor:
    if _on_gpu(a, u, h0):
        return launch.scan(a, u, h0, reset)
    if not _natively(a, u, h0):
        return _by_torch(u).scan(a, u, h0, reset)
    a, u, h0, reset = tensors.contiguous(a, u, h0, reset)
    h = torch.empty_like(u)
    _call(a=a, u=u, h0=h0, reset=reset, h=h)
    return h


def _scan_backward(
    g_h: Tensor, a: Tensor, u: Tensor, h0: Tensor, h: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    if _on_gpu(a, g_h, u, h0, h):
        return launch.adjoint(g_h, a, u, h0, h, reset)
    if not _natively(a, g_h, u, h0, h):
        return _by_torch(u).adjoint(g_h, a, u, h0, h, reset)
    g_h, a, u, h0, h, reset = tensors.contiguous(g_h, a, u, h0, h, reset)
    g_a, g_u, g_h0 = torch.empty_like(a), torch.empty_like(u), torch.empty_like(h0)
    _call(a=a, u=u, h0=h0, reset=reset, h=h, g_h=g_h, g_a=g_a, g_u=g_u, g_h0=g_h0)
    return g_a, g_u, g_h0


def _natively(*given: Tensor) -> bool:
    return backend() == "native" and tensors.fits(*given)


def _by_torch(u: Tensor) -> ModuleType:
    return chained if devices.synchronises(u.device) else chunked


def _on_gpu(first: Tensor, *others: Tensor) -> bool:
    """Return True if the Triton kernel computes: CUDA tensors, or in its interpreter on request."""
    if first.is_cuda:
        wanted = asked_for() != "torch" and gpu.installed()
    else:
        wanted = first.is_cpu and backend() == "triton" and gpu.interpreted()
    return (
        wanted
        and first.dtype in (torch.float32, torch.float64)
        and all(each.dtype == first.dtype and each.device == first.device for each in others)
    )


def _call(a: Tensor, u: Tensor, **others: Tensor | None) -> None:
    """Call the kernel: forward, or backward with a `g_h`."""
    batch, steps, *planes, columns = a.shape
    fields = {
        "wide": u.dtype == torch.float64, "batch": batch, "steps": steps, "width": u.shape[3],
        "order": u.shape[2], "planes": math.prod(planes), "columns": columns, "a": a, "u": u,
    }  # fmt: skip
    arguments = pack("Scan", fields | others)
    call("scan", arguments.address, torch.get_num_threads())


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    a, u, h0, reset = inputs
    ctx.save_for_backward(a, u, h0, output, reset)


def _mapped(
    info: Any, in_dims: tuple[int | None, ...], *arguments: Tensor | None
) -> tuple[Tensor, int]:
    size = info.batch_size
    h = scan(*(folded(value, dim, size) for value, dim in zip(arguments, in_dims, strict=True)))
    return h.unflatten(0, (size, -1)), 0


def _mapped_backward(
    info: Any, in_dims: tuple[int | None, ...], *arguments: Tensor | None
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    size = info.batch_size
    given = (folded(value, dim, size) for value, dim in zip(arguments, in_dims, strict=True))
    return tuple(each.unflatten(0, (size, -1)) for each in scan_backward(*given)), (0, 0, 0)


scan = register(
    "scan",
    "(Tensor a, Tensor u, Tensor h0, Tensor? reset) -> Tensor",
    _scan,
    lambda a, u, h0, reset: u.new_empty(u.shape),
)
"""(a, u, h0, reset) to all states, by the `native`, the `triton` or the `torch` backend."""
scan_backward = register(
    "scan_backward",
    "(Tensor g_h, Tensor a, Tensor u, Tensor h0, Tensor h, Tensor? reset) -> (Tensor, Tensor, Tensor)",
    _scan_backward,
    lambda g_h, a, u, h0, h, reset: tuple(each.new_empty(each.shape) for each in (a, u, h0)),
)


def _adjoint(ctx: Any, g_h: Tensor) -> tuple[Any, ...]:
    tensors.refuse_second_derivatives()
    return *scan_backward(g_h, *ctx.saved_tensors), None


torch.library.register_autograd(scan, _adjoint, setup_context=_save)
torch.library.register_vmap(scan, _mapped)
torch.library.register_vmap(scan_backward, _mapped_backward)


class Scanned(torch.autograd.Function):
    """`scan` for the gradients of `torch.func`, which sees no adjoint of an operator."""

    generate_vmap_rule = True
    forward = staticmethod(lambda *arguments: scan(*arguments))
    setup_context = staticmethod(_save)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return *_ScannedBack.apply(*grads, *ctx.saved_tensors), None


class _ScannedBack(torch.autograd.Function):
    generate_vmap_rule = True
    forward = staticmethod(lambda *arguments: scan_backward(*arguments))
    setup_context = staticmethod(lambda ctx, inputs, output: None)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> None:
        tensors.refuse_second_derivatives()
