"""Blocks as the torch operator `csprop::blocks`: its schema, shapes, adjoint and vmap rule."""

from typing import Any

import torch
from torch import Tensor

from csprop.ops.fused import autograd, calls
from csprop.ops.fused.calls import Inputs, Kept, flattened, layers_of
from csprop.ops.operators import folded, register, stacked
from csprop.ops.options import KernelOptions

ARGUMENTS = "Tensor z, Tensor state, Tensor? reset, Tensor? coupled, Tensor[] parameters"
OPTIONS = ", ".join(f"{kind.__name__} {name}" for name, kind in KernelOptions.__annotations__.items())
KEPT = ", ".join(f"Tensor {name}" for name in Kept._fields)
RESULTS = ", ".join(["Tensor"] * (1 + len(Kept._fields)))


def _inputs(z: Tensor, state: Tensor, reset: Any, coupled: Any, parameters: list[Tensor]) -> Inputs:
    return Inputs(z, state, reset, coupled, layers_of(parameters))


def _forward(*arguments: Any) -> tuple[Tensor, ...]:
    *inputs, keep = arguments
    out, kept = calls.forward(_inputs(*inputs[:5]), KernelOptions(*inputs[5:]), keep)
    return out, *kept


def _shapes(*arguments: Any) -> tuple[Tensor, ...]:
    out, kept = calls.made(_inputs(*arguments[:5]), keep=arguments[-1])
    return out, *kept


def _backward(g_out: Tensor, g_h: Tensor | None, *arguments: Any) -> list[Tensor]:
    kept, inputs = arguments[: len(Kept._fields)], arguments[len(Kept._fields) :]
    options = KernelOptions(*inputs[5:])
    return _listed(calls.backward(g_out, g_h, Kept(*kept), _inputs(*inputs[:5]), options))


def _backward_shapes(g_out: Tensor, g_h: Tensor | None, *arguments: Any) -> list[Tensor]:
    inputs = arguments[len(Kept._fields) :]
    return _listed(calls.empty_gradients(_inputs(*inputs[:5])))


def _listed(g: Inputs) -> list[Tensor]:
    assert g.coupled is not None
    return [g.z, g.state, g.coupled, *flattened(g.layers)]


operator = register(
    "blocks",
    f"({ARGUMENTS}, {OPTIONS}, bool keep) -> ({RESULTS})",
    _forward,
    _shapes,
)
_operator_backward = register(
    "blocks_backward",
    f"(Tensor g_out, Tensor? g_h, {KEPT}, {ARGUMENTS}, {OPTIONS}) -> Tensor[]",
    _backward,
    _backward_shapes,
)


def _traced_backward(
    g_out: Tensor, g_h: Tensor | None, kept: Kept, given: Inputs, options: KernelOptions
) -> Inputs:
    *arguments, layers = given
    found = _operator_backward(g_out, g_h, *kept, *arguments, flattened(layers), *options)
    g_z, g_state, g_coupled, *g_parameters = found
    return Inputs(g_z, g_state, None, g_coupled, layers_of(g_parameters))


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, *kept = output
    autograd.save(ctx, _inputs(*inputs[:5]), Kept(*kept), KernelOptions(*inputs[5:-1]))


def _adjoint(ctx: Any, *grads: Any) -> tuple[Any, ...]:
    of_arguments, of_parameters = autograd.gradients(_traced_backward, ctx, *grads[:2])
    return *of_arguments, of_parameters, *[None] * len(KernelOptions._fields), None


def _mapped(info: Any, in_dims: Any, *arguments: Any) -> tuple[Any, Any]:
    """vmap over rows and parameters: models side by side."""
    size, (z, state, reset, coupled, parameters, *options) = info.batch_size, arguments
    rows = [
        folded(value, dim, size, place)
        for value, dim, place in zip((z, state, reset, coupled), in_dims, (0, 1, 0, 0), strict=False)
    ]
    given = [stacked(value, dim, size) for value, dim in zip(parameters, in_dims[4], strict=True)]
    results = operator(*rows, given, *options)
    places = (0, 1, 1, 1, 1)
    return tuple(
        each.unflatten(place, (size, -1)) for each, place in zip(results, places, strict=True)
    ), places


torch.library.register_autograd(operator, _adjoint, setup_context=_save)
torch.library.register_vmap(operator, _mapped)
