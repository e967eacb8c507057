"""Blocks, one after the other, as one torch operator: the compiled kernel, and matrix products where
channels have gates of their own.

z, coupled      the first layer's input (B, T, 2, D); what is coupled in, the same
state           the layers' first states (L, B, 2, D)
parameters      of each layer: weight and bias of the angle's projection and of the gate's, g of the
                skip (D), where a state begins again after a reset (2, D); ABSENT if there is none
theta, delta    what the projections give (L, G, B·T / G, 1 or D)
h, inner        the states (L, B, T, 2, D), and the outputs of all layers but the last

Every parameter may have a leading dimension G: the rows then belong to G models, one after the other.

The operator is what compile, export and vmap see. Its way through the dispatcher and back into Python
costs a quarter of a millisecond, so that otherwise the same functions run as an `autograd.Function`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from csprop.ops import native
from csprop.ops.operators import folded, operator, stacked

Parameters = Sequence[Tensor]
ABSENT = torch.empty(0)
EACH = 6  # parameters of a layer
OPTIONS = 5  # rotate, angle, decay, silu, norm


def blocks(
    z: Tensor, state: Tensor, reset: Tensor | None, coupled: Tensor | None, parameters: Parameters,
    rotate: str, angle: str, decay: str, silu: bool, norm: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The last layer's output and all layers' last states, (L, B, 2, D)."""
    arguments = (z, state, reset, coupled)
    options = (rotate, angle, decay, silu, norm, torch.is_grad_enabled())
    if _traced():
        out, h, *_ = _operator(*arguments, parameters, *options)
    else:
        out, h, *_ = _Direct.apply(options, *arguments, *parameters)
    return out, h[:, :, -1]


def _traced() -> bool:
    """Whether compile, export, vmap, or a mode such as that of fake tensors has to see the operator."""
    return (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack() > 0
    )


def fits(
    z: Tensor, state: Tensor, reset: Tensor | None, coupled: Tensor | None, layer: Parameters
) -> bool:
    """Whether the kernel can take these, `layer` the parameters of one: types, devices and shapes."""
    width = z.shape[-1]
    angle_weight, angle_bias, gate_weight, gate_bias, skip, start = layer
    given = [each for each in layer if each is not ABSENT]
    return (
        native.fits(z, state, coupled, *given)
        and (reset is None or (reset.dtype is torch.bool and reset.is_cpu))
        and gate_weight.shape in ((1, 2 * width), (width, 2 * width))
        and gate_bias.shape == gate_weight.shape[:1]
        and (skip is ABSENT or skip.shape == (width,))
        and start.shape == (2, width)
        and (angle_weight is ABSENT or _fits_angle(angle_weight, angle_bias, width))
    )


def _fits_angle(weight: Tensor, bias: Tensor, width: int) -> bool:
    rows, inputs = weight.shape
    plausible = rows in (1, width) and inputs in (width, 2 * width)
    return plausible and (bias is ABSENT or bias.shape == (rows,))


def _forward(
    z: Tensor, state: Tensor, reset: Tensor | None, coupled: Tensor | None, parameters: Parameters,
    *options: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    keep = options[OPTIONS]
    z, state, reset, coupled, *parameters = native.contiguous(z, state, reset, coupled, *parameters)
    out, h, inner, theta, delta = made = [
        z.new_empty(shape) for shape in _shapes(z, state, parameters, keep)
    ]
    own = max(delta.shape[3], theta.shape[3]) > 1  # gates of each channel, by matrix products
    common = native.shared_by_layers(z, delta.shape[1], parameters[0], parameters[2], options[:OPTIONS])
    common |= {"keep": keep, "coupled": native.pointer(coupled), "reset": native.pointer(reset)}
    depth, layers = len(state), []
    enters, states, lasts, thetas, deltas = map(_each, (inner, state, h, theta, delta))
    outputs = [*enters, out.data_ptr()] if len(inner) else [0] * (depth - 1) + [out.data_ptr()]
    for layer in range(depth):
        given = parameters[layer * EACH : (layer + 1) * EACH]
        block = native.Block(
            **common,
            **dict(zip(native.PARAMETERS, (each.data_ptr() for each in given), strict=True)),
            z=outputs[layer - 1] if layer else z.data_ptr(),
            h0=states[layer], out=outputs[layer], h=lasts[layer],
            theta=thetas[layer], delta=deltas[layer],
        )  # fmt: skip
        layers.append(block)
        if own:
            entering = inner[layer - 1] if layer else z
            _project(entering, given[0], given[1], theta[layer])
            _project(entering, given[2], given[3], delta[layer])
            native.stack(layers[-1:])
    if not own:
        native.stack(layers)
    return tuple(made)


def _each(stacked: Tensor) -> list[int]:
    """Where each layer's part of a contiguous tensor begins."""
    if not stacked.numel():
        return [0] * len(stacked)
    step = stacked.stride(0) * stacked.element_size()
    return [stacked.data_ptr() + layer * step for layer in range(len(stacked))]


def _shapes(z: Tensor, state: Tensor, parameters: Parameters, keep: bool) -> list[tuple[int, ...]]:
    """Of out, h, inner, theta and delta."""
    batch, steps, _, width = z.shape
    depth, (angle_weight, _, gate_weight, *_) = len(state), parameters[:EACH]
    groups = 1 if gate_weight.ndim == 2 else gate_weight.shape[0]
    rows = (depth, groups, batch * steps // groups)
    angles = angle_weight.shape[-2] if angle_weight.numel() else 0
    own = max(angles, gate_weight.shape[-2]) > 1
    return [
        (batch, steps, 2, width),
        (depth, batch, steps if keep else 1, 2, width),
        (depth - 1 if keep or own else 0, batch, steps, 2, width),
        (*rows, angles),
        (*rows, gate_weight.shape[-2]),
    ]


def _project(z: Tensor, weight: Tensor, bias: Tensor, result: Tensor) -> None:
    """Into result, (G, rows, D); one that the channels share is left to the kernel."""
    if result.shape[2] <= 1:
        return
    seen = weight.shape[-1]  # Re z alone, for the printed angle
    rows = z.view(len(result), -1, 2 * z.shape[3])[..., :seen]
    weights = weight if weight.ndim == 3 else weight[None]
    if not bias.numel():
        torch.bmm(rows, weights.mT, out=result)
    else:
        torch.baddbmm(bias.view(len(result), 1, -1), rows, weights.mT, out=result)


def _backward(
    g_out: Tensor, g_h: Tensor | None, h: Tensor, inner: Tensor, theta: Tensor, delta: Tensor,
    z: Tensor, state: Tensor, reset: Tensor | None, coupled: Tensor | None, parameters: Parameters,
    *options: Any,
) -> list[Tensor]:  # fmt: skip
    """Of z, state, coupled and the parameters; an empty one for what was absent or had no part."""
    g_out, g_h, h, inner, theta, delta = native.contiguous(g_out, g_h, h, inner, theta, delta)
    z, state, reset, coupled, *parameters = native.contiguous(z, state, reset, coupled, *parameters)
    g_z, g_state, g_theta, g_delta = map(torch.empty_like, (z, state, theta, delta))
    g_coupled = z.new_empty(0) if coupled is None else torch.empty_like(z)
    starts = range(EACH - 1, len(parameters), EACH)
    g_parameters = [
        z.new_empty(0 if reset is None and place in starts else each.shape)
        for place, each in enumerate(parameters)
    ]
    own = max(delta.shape[3], theta.shape[3]) > 1
    common = native.shared_by_layers(z, delta.shape[1], parameters[0], parameters[2], options)
    common |= {
        "keep": 1, "coupled": native.pointer(coupled), "reset": native.pointer(reset),
        "g_coupled": g_coupled.data_ptr(),
    }  # fmt: skip
    names = ("inner", "h0", "h", "theta", "delta", "g_h0", "g_theta", "g_delta")
    tensors = (inner, state, h, theta, delta, g_state, g_theta, g_delta)
    begins = {name: _each(each) for name, each in zip(names, tensors, strict=True)}
    enters, g_states = begins.pop("inner"), [0] * len(state) if g_h is None else _each(g_h)
    layers: list[Any] = []
    leaving = g_out
    for layer in reversed(range(len(state))):
        mine = slice(layer * EACH, (layer + 1) * EACH)
        given, g_given = parameters[mine], g_parameters[mine]
        g_entering = g_z if not layer else torch.empty_like(z) if own else None
        block = native.Block(
            **common,
            **{name: each[layer] for name, each in begins.items()},
            **dict(zip(native.PARAMETERS, (each.data_ptr() for each in given), strict=True)),
            **dict(zip(_GRADIENTS, (each.data_ptr() for each in g_given), strict=True)),
            z=enters[layer - 1] if layer else z.data_ptr(),
            g_out=native.pointer(leaving), g_z=native.pointer(g_entering), g_h=g_states[layer],
        )  # fmt: skip
        layers.insert(0, block)
        if own:
            assert g_entering is not None
            native.stack(layers[:1])
            entering = inner[layer - 1] if layer else z
            _project_adjoint(g_theta[layer], entering, g_entering, given[0], *g_given[0:2])
            _project_adjoint(g_delta[layer], entering, g_entering, given[2], *g_given[2:4])
        leaving = g_entering  # and not before: the kernel reads it
    if not own:
        native.stack(layers)
    return [g_z, g_state, g_coupled, *g_parameters]


_GRADIENTS = [f"g_{name}" for name in native.PARAMETERS]


def _project_adjoint(
    g: Tensor, z: Tensor, g_z: Tensor, weight: Tensor, g_weight: Tensor, g_bias: Tensor
) -> None:
    """Fill in the gradients of weight and bias, and add that of the rows to g_z."""
    if g.shape[2] <= 1:
        return
    rows, g_rows = (each.view(len(g), -1, 2 * z.shape[3])[..., : weight.shape[-1]] for each in (z, g_z))
    weights, g_weights = (each if each.ndim == 3 else each[None] for each in (weight, g_weight))
    g_rows.baddbmm_(g, weights)
    torch.bmm(g.mT, rows, out=g_weights)
    if g_bias.numel():
        torch.sum(g, dim=1, out=g_bias.view(len(g), -1))


def _save(
    ctx: Any, arguments: Sequence[Any], results: tuple[Tensor, ...], options: Sequence[Any]
) -> None:
    *tensors, parameters = arguments
    _, h, inner, theta, delta = results
    ctx.save_for_backward(h, inner, theta, delta, *tensors, *parameters)
    ctx.options = options[:OPTIONS]
    ctx.mark_non_differentiable(inner, theta, delta)
    ctx.set_materialize_grads(False)


def _gradients(
    how: Any, ctx: Any, g_out: Tensor | None, g_h: Tensor | None
) -> tuple[list[Any], list[Any]]:
    """Of z, state, reset and coupled; and of the parameters."""
    h, inner, theta, delta, z, state, reset, coupled, *parameters = ctx.saved_tensors
    if g_out is None:
        g_out = torch.zeros_like(z)
    results = how(
        g_out, g_h, h, inner, theta, delta, z, state, reset, coupled, parameters, *ctx.options
    )
    g_z, g_state, *others = (each if each.numel() else None for each in results)
    return [g_z, g_state, None, others[0]], others[1:]


class _Direct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, options: Sequence[Any], *tensors: Any) -> tuple[Tensor, ...]:
        arguments = (*tensors[:4], tensors[4:])
        results = _forward(*arguments, *options)
        _save(ctx, arguments, results, options)
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        native.refuse_second_derivatives()
        of_arguments, of_parameters = _gradients(_backward, ctx, *grads[:2])
        return None, *of_arguments, *of_parameters


ARGUMENTS = "Tensor z, Tensor state, Tensor? reset, Tensor? coupled, Tensor[] parameters"
NAMES = "str rotate, str angle, str decay, bool silu, bool norm"
KEPT = "Tensor h, Tensor inner, Tensor theta, Tensor delta"


def _fake(
    z: Tensor, state: Tensor, reset: Any, coupled: Any, parameters: Parameters, *options: Any
) -> tuple[Tensor, ...]:
    return tuple(z.new_empty(shape) for shape in _shapes(z, state, parameters, options[OPTIONS]))


def _fake_backward(
    g_out: Any, g_h: Any, h: Any, inner: Any, theta: Any, delta: Any,
    z: Tensor, state: Tensor, reset: Any, coupled: Any, parameters: Parameters, *options: Any,
) -> list[Tensor]:  # fmt: skip
    starts = set() if reset is not None else set(range(EACH - 1, len(parameters), EACH))
    given = [None if place in starts else each for place, each in enumerate(parameters)]
    return [z.new_empty((0,) if each is None else each.shape) for each in (z, state, coupled, *given)]


_operator = operator(
    "blocks", f"({ARGUMENTS}, {NAMES}, bool keep) -> ({', '.join(['Tensor'] * 5)})", _forward, _fake
)
_operator_backward = operator(
    "blocks_backward",
    f"(Tensor g_out, Tensor? g_h, {KEPT}, {ARGUMENTS}, {NAMES}) -> Tensor[]",
    _backward,
    _fake_backward,
)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _save(ctx, inputs[:5], output, inputs[5:])


def _adjoint(ctx: Any, *grads: Any) -> tuple[Any, ...]:
    of_arguments, of_parameters = _gradients(_operator_backward, ctx, *grads[:2])
    return *of_arguments, of_parameters, *[None] * (OPTIONS + 1)


def _mapped(info: Any, in_dims: Any, *arguments: Any) -> tuple[Any, Any]:
    """vmap over rows and parameters: models side by side."""
    size, (z, state, reset, coupled, parameters, *options) = info.batch_size, arguments
    rows = [
        folded(value, dim, size, place)
        for value, dim, place in zip((z, state, reset, coupled), in_dims, (0, 1, 0, 0), strict=False)
    ]
    given = [stacked(value, dim, size) for value, dim in zip(parameters, in_dims[4], strict=True)]
    results = _operator(*rows, given, *options)
    places = (0, 1, 1, 1, 1)
    return tuple(
        each.unflatten(place, (size, -1)) for each, place in zip(results, places, strict=True)
    ), places


torch.library.register_autograd(_operator, _adjoint, setup_context=_setup)
torch.library.register_vmap(_operator, _mapped)
