"""How a computation by hand becomes a torch operator, and the scan as one.

An operator is registered with its shapes, its adjoint and its rule for `vmap`, so that compile, export and
vmap treat it as one node. The dispatcher's way through Python costs a quarter of a millisecond: where none
of them is at work, the same functions run as a plain `autograd.Function`.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from csprop.ops import chunked, native
from csprop.ops.backends import backend


def operator(name: str, schema: str, compute: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    """Register `csprop::name`; `fake` makes results of the right shape."""
    torch.library.define(f"csprop::{name}", schema, tags=torch.Tag.pt2_compliant_tag)
    torch.library.impl(f"csprop::{name}", "default", compute)
    torch.library.register_fake(f"csprop::{name}", fake)
    return getattr(torch.ops.csprop, name).default


def differentiable(
    forward: Any,
    compute: Callable[..., Any],
    save: Callable[..., None],
    adjoint: Callable[..., Callable[..., Any]],
    backward: tuple[Any, Callable[..., Any]],
    rows: int,
) -> Callable[..., Any]:
    """The operator `forward`, which does `compute`, with a gradient.

    `adjoint(how)` turns the operator of the adjoint, or the function behind it, into a backward. The first
    `rows` arguments and all results lead with the rows of a batch; other tensors are parameters, which
    vmap stacks.
    """
    registered, by_hand = backward
    through_operator, directly = adjoint(registered), once_differentiable(adjoint(by_hand))

    class Direct(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> Any:
            results = compute(*arguments)
            save(ctx, arguments, results)
            return results

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return directly(ctx, *grads)

    def mapped(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        folded = []
        for place, (value, dim) in enumerate(zip(arguments, in_dims, strict=True)):
            if isinstance(value, Tensor):
                size = info.batch_size
                value = value.expand(size, *value.shape) if dim is None else value.movedim(dim, 0)
                value = value.flatten(0, 1) if place < rows else value
            folded.append(value)
        results = call(*folded)
        if isinstance(results, Tensor):
            return results.unflatten(0, (info.batch_size, -1)), 0
        split = tuple(result.unflatten(0, (info.batch_size, -1)) for result in results)
        return split, (0,) * len(split)

    def call(*arguments: Any) -> Any:
        tracing = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
        return (forward if tracing else Direct.apply)(*arguments)

    torch.library.register_autograd(forward, through_operator, setup_context=save)
    torch.library.register_vmap(forward, mapped)
    return call


def contiguous(*tensors: Tensor | None) -> list[Any]:
    return [None if tensor is None else tensor.contiguous() for tensor in tensors]


def _scan(a: Tensor, u: Tensor, h0: Tensor, reset: Tensor | None) -> Tensor:
    if not _natively(a, u, h0):
        return chunked.scan(a, u, h0, reset)
    a, u, h0, reset = contiguous(a, u, h0, reset)
    h = torch.empty_like(u)
    native.scan(**_shape(a, u), a=a, u=u, h0=h0, reset=reset, h=h)
    return h


def _scan_backward(
    g_h: Tensor, a: Tensor, u: Tensor, h0: Tensor, h: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    if not _natively(a, g_h, u, h0, h):
        return chunked.adjoint(g_h, a, u, h0, h, reset)
    g_h, a, u, h0, h, reset = contiguous(g_h, a, u, h0, h, reset)
    g_a, g_u, g_h0 = torch.empty_like(a), torch.empty_like(u), torch.empty_like(h0)
    native.scan(
        **_shape(a, u), a=a, u=u, h0=h0, reset=reset, h=h, g_h=g_h, g_a=g_a, g_u=g_u, g_h0=g_h0
    )
    return g_a, g_u, g_h0


def _natively(*tensors: Tensor) -> bool:
    return backend() == "native" and native.fits(*tensors)


def _shape(a: Tensor, u: Tensor) -> dict[str, int]:
    names = ("batch", "steps", "planes", "columns")
    return dict(zip(names, a.shape, strict=True)) | {"width": u.shape[3], "wide": u.dtype == torch.float64}


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    a, u, h0, reset = inputs
    ctx.save_for_backward(a, u, h0, output, reset)


def _adjoint(how: Callable[..., Any]) -> Callable[..., Any]:
    return lambda ctx, g_h: (*how(g_h, *ctx.saved_tensors), None)


scan = differentiable(
    operator(
        "scan",
        "(Tensor a, Tensor u, Tensor h0, Tensor? reset) -> Tensor",
        _scan,
        lambda a, u, h0, reset: u.new_empty(u.shape),
    ),
    _scan,
    _save,
    _adjoint,
    (
        operator(
            "scan_backward",
            "(Tensor g_h, Tensor a, Tensor u, Tensor h0, Tensor h, Tensor? reset) "
            "-> (Tensor, Tensor, Tensor)",
            _scan_backward,
            lambda g_h, a, u, h0, h, reset: tuple(each.new_empty(each.shape) for each in (a, u, h0)),
        ),
        _scan_backward,
    ),
    rows=4,
)
"""(a, u, h0, reset) to all states, by the `native` or the `torch` backend."""
