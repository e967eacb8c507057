"""csprop's operators for torch: one node each for compile, export and vmap.

Only traced code imports this file. A process that loads a program of `torch.export` imports it first.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from csprop.ops import counts, route
from csprop.ops.checks import refuse_second_derivatives
from csprop.ops.scan import compute, compute_adjoint


def _register(name: str, schema: str, compute: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    """Register `csprop::name`; `fake` makes results of the right shape."""
    torch.library.define(f"csprop::{name}", schema, tags=torch.Tag.pt2_compliant_tag)
    torch.library.impl(f"csprop::{name}", "default", compute)
    torch.library.register_fake(f"csprop::{name}", fake)
    return getattr(torch.ops.csprop, name).default


def _map_rows(operator: Any) -> None:
    """Let vmap add the dimension that it maps to the rows of a batch."""

    def fold(value: Tensor | None, dim: int | None, size: int) -> Tensor | None:
        if value is None:
            return None
        stacked = value.expand(size, *value.shape) if dim is None else value.movedim(dim, 0)
        return stacked.flatten(0, 1)

    def rule(info: Any, in_dims: tuple[int | None, ...], *arguments: Tensor | None) -> Any:
        size = info.batch_size
        results = operator(*(fold(*pair, size) for pair in zip(arguments, in_dims, strict=True)))
        if isinstance(results, Tensor):
            return results.unflatten(0, (size, -1)), 0
        return tuple(each.unflatten(0, (size, -1)) for each in results), (0,) * len(results)

    torch.library.register_vmap(operator, rule)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    a, u, h0, reset = inputs
    ctx.save_for_backward(a, u, h0, output, reset)


def _adjoint(ctx: Any, g_h: Tensor) -> tuple[Any, ...]:
    refuse_second_derivatives()
    return *scan_backward(g_h, *ctx.saved_tensors), None


scan = _register(
    "scan",
    "(Tensor a, Tensor u, Tensor h0, Tensor? reset) -> Tensor",
    compute,
    lambda a, u, h0, reset: u.new_empty(u.shape),
)
scan_backward = _register(
    "scan_backward",
    "(Tensor g_h, Tensor a, Tensor u, Tensor h0, Tensor h, Tensor? reset) -> (Tensor, Tensor, Tensor)",
    compute_adjoint,
    lambda g_h, a, u, h0, h, reset: tuple(each.new_empty(each.shape) for each in (a, u, h0)),
)
exact_counts = _register(
    "exact_counts",
    "(Tensor counts, Tensor before, Tensor added) -> Tensor",
    counts.check_counts,
    lambda counts, before, added: torch.empty_like(counts),
)
route_hard = _register(
    "route_hard",
    "(Tensor targets, Tensor choice, Tensor h0, Tensor? reset, Tensor? start) -> Tensor",
    route.compute_hard,
    lambda targets, choice, h0, *others: h0.new_empty(*choice.shape, *h0.shape[1:]),
)
torch.library.register_autograd(scan, _adjoint, setup_context=_save)
for _operator in (scan, scan_backward, exact_counts):
    _map_rows(_operator)


class _Scan(torch.autograd.Function):
    """`scan` for the gradients of `torch.func`, which sees no adjoint of an operator."""

    generate_vmap_rule = True
    forward = staticmethod(lambda *arguments: scan(*arguments))
    setup_context = staticmethod(_save)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return *_ScanBackward.apply(*grads, *ctx.saved_tensors), None


class _ScanBackward(torch.autograd.Function):
    generate_vmap_rule = True
    forward = staticmethod(lambda *arguments: scan_backward(*arguments))
    setup_context = staticmethod(lambda ctx, inputs, output: None)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> None:
        refuse_second_derivatives()


def scan_traced(a: Tensor, u: Tensor, h0: Tensor, reset: Tensor | None) -> Tensor:
    """Return all states, by the operator."""
    return _Scan.apply(a, u, h0, reset) if _differentiates() else scan(a, u, h0, reset)


def _differentiates() -> bool:
    """Return True inside a transform of `torch.func` that takes gradients, such as `grad`."""
    if torch.compiler.is_compiling() or not torch._C._are_functorch_transforms_active():
        return False
    functorch: Any = sys.modules["torch._C._functorch"]
    levels = functorch.get_interpreter_stack() or []
    return any(level.key() == functorch.TransformType.Grad for level in levels)


def over_time_in_onnx(
    step: Callable[..., Tensor],
    first: Tensor,
    inputs: Sequence[Tensor | None],
    fixed: Sequence[Tensor | None],
) -> Tensor:
    """Return the states of `over_time` as one Scan of an ONNX graph."""
    from torch._higher_order_ops.scan import scan_op

    def body(h: Tensor, *now: Tensor) -> list[Tensor]:
        left = iter(now)
        h = step(h, *(None if each is None else next(left) for each in (*inputs, *fixed)))
        return [h, h.clone()]  # what is carried on, and what is kept, may not be one tensor

    # Detached: torch's scan has no gradients for a length that is not known.
    _, states = scan_op(
        body,
        [first.detach().clone()],
        [each.detach().transpose(0, 1) for each in inputs if each is not None],
        additional_inputs=tuple(each.detach() for each in fixed if each is not None),
    )
    return states.transpose(0, 1)
