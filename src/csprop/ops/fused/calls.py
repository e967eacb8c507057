"""Blocks forward and backward: structures filled in for the kernel, and the kernel called.

Gates that the channels share are projected by the kernel, and all layers are one call. Where each
channel has gates of its own, a layer is a matrix product by torch and a call.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from csprop.ops.native import tensors
from csprop.ops.native.layout import Block
from csprop.ops.native.tensors import Layer, contiguous, pointer
from csprop.ops.options import KernelOptions


class Inputs(NamedTuple):
    """What blocks are given; their gradients have the same names, and nothing for `reset`."""

    z: Tensor  # (B, T, 2, D)
    state: Tensor  # (L, B, 2, D)
    reset: Tensor | None  # (B, T)
    coupled: Tensor | None  # (B, T, 2, D)
    layers: list[Layer]

    def contiguous(self) -> "Inputs":
        z, state, reset, coupled = contiguous(*self[:4])
        return Inputs(z, state, reset, coupled, [Layer(*contiguous(*each)) for each in self.layers])

    def entering(self, kept: "Kept", layer: int) -> Tensor:
        """The input of a layer."""
        return kept.inner[layer - 1] if layer else self.z


class Kept(NamedTuple):
    """What the adjoint needs of the forward pass, beside its inputs; G groups of rows, a model each."""

    h: Tensor  # the states (L, B, T, 2, D), or only the last ones, T = 1
    inner: Tensor  # the outputs of all layers but the last (L - 1, B, T, 2, D)
    theta: Tensor  # what the projections give (L, G, B·T / G, 0, 1 or D)
    delta: Tensor  # (L, G, B·T / G, 1 or D)

    @property
    def per_channel(self) -> bool:
        """Whether channels have angles or gates of their own."""
        return max(self.theta.shape[3], self.delta.shape[3]) > 1


def flattened(layers: Sequence[Layer]) -> list[Tensor]:
    """The parameters of all layers in one list, as operators take them."""
    return [each for layer in layers for each in layer]


def layers_of(parameters: Sequence[Tensor]) -> list[Layer]:
    """The inverse of `flattened`."""
    size = len(Layer._fields)
    return [Layer(*parameters[first : first + size]) for first in range(0, len(parameters), size)]


def made(given: Inputs, keep: bool) -> tuple[Tensor, Kept]:
    """Empty tensors for the output, and for what is kept."""
    new, (batch, steps, _, width), depth = given.z.new_empty, given.z.shape, len(given.layers)
    layer = given.layers[0]
    groups, angles, gates = layer.groups, layer.angles, layer.gates
    inner = depth - 1 if keep or angles > 1 or gates > 1 else 0
    kept = Kept(
        h=new(depth, batch, steps if keep else 1, 2, width),
        inner=new(inner, batch, steps, 2, width),
        theta=new(depth, groups, batch * steps // groups, angles),
        delta=new(depth, groups, batch * steps // groups, gates),
    )
    return new(given.z.shape), kept


def forward(given: Inputs, options: KernelOptions, keep: bool) -> tuple[Tensor, Kept]:
    """The output of the last layer, and what is kept; all of it only where `keep` is set."""
    given = given.contiguous()
    out, kept = made(given, keep)
    common = _common(given, options) | {"keep": keep}
    depth = len(given.layers)
    outputs = [*_each(kept.inner), out.data_ptr()]
    if len(outputs) < depth:  # the kernel needs no memory between layers
        outputs = [0] * (depth - 1) + outputs
    places = _layered(h0=given.state, h=kept.h, theta=kept.theta, delta=kept.delta)
    blocks = [
        Block(
            **common, **layer.pointers(), **places[number], out=outputs[number],
            z=outputs[number - 1] if number else given.z.data_ptr(),
        )
        for number, layer in enumerate(given.layers)
    ]  # fmt: skip
    if not kept.per_channel:
        tensors.stack(blocks)
        return out, kept
    for number, layer in enumerate(given.layers):
        entering = given.entering(kept, number)
        _project(entering, layer.angle_weight, layer.angle_bias, kept.theta[number])
        _project(entering, layer.gate_weight, layer.gate_bias, kept.delta[number])
        tensors.stack(blocks[number : number + 1])
    return out, kept


def empty_gradients(given: Inputs) -> Inputs:
    """Tensors for the gradients; without numbers for what was absent or had no part."""

    def like(each: Tensor | None) -> Tensor:
        return given.z.new_empty(0 if each is None else each.shape)

    def of_layer(layer: Layer) -> Layer:
        *others, start = layer
        return Layer._make(map(like, (*others, None if given.reset is None else start)))

    layers = [of_layer(layer) for layer in given.layers]
    return Inputs(like(given.z), like(given.state), None, like(given.coupled), layers)


def backward(
    g_out: Tensor, g_h: Tensor | None, kept: Kept, given: Inputs, options: KernelOptions
) -> Inputs:
    """The gradients, from those of the output and of all states, which may be absent."""
    g_out, g_h, *states = contiguous(g_out, g_h, *kept)
    kept, given = Kept(*states), given.contiguous()
    g, (g_theta, g_delta) = empty_gradients(given), map(torch.empty_like, (kept.theta, kept.delta))
    common = _common(given, options) | {"keep": 1, "g_coupled": pointer(g.coupled)}
    places = _layered(
        h0=given.state, h=kept.h, theta=kept.theta, delta=kept.delta,
        g_h=g_h, g_h0=g.state, g_theta=g_theta, g_delta=g_delta,
    )  # fmt: skip
    inputs = [given.z.data_ptr(), *_each(kept.inner)]

    def block(number: int, leaving: Tensor | None, g_entering: Tensor | None) -> Block:
        layer, g_layer = given.layers[number], g.layers[number]
        return Block(
            **common, **places[number], **layer.pointers(), **g_layer.pointers("g_"),
            z=inputs[number], g_out=pointer(leaving), g_z=pointer(g_entering),
        )  # fmt: skip

    depth = len(given.layers)
    if not kept.per_channel:
        ends = [(g_out if n == depth - 1 else None, None if n else g.z) for n in range(depth)]
        tensors.stack([block(number, *each) for number, each in enumerate(ends)])
        return g
    leaving = g_out
    for number in reversed(range(depth)):
        g_entering = torch.empty_like(g.z) if number else g.z
        tensors.stack([block(number, leaving, g_entering)])
        _projections_adjoint(
            g_theta[number], g_delta[number], given.entering(kept, number), g_entering,
            given.layers[number], g.layers[number],
        )  # fmt: skip
        leaving = g_entering  # and not before: the kernel reads it
    return g


def _common(given: Inputs, options: KernelOptions) -> dict[str, int]:
    """The fields that are the same in all layers."""
    shared = tensors.shared_by_layers(given.z, given.layers[0], options)
    return shared | {"coupled": pointer(given.coupled), "reset": pointer(given.reset)}


def _layered(**stacked: Tensor | None) -> list[dict[str, int]]:
    """Of every layer, where its part of each of these begins."""
    begins = {name: _each(each) for name, each in stacked.items() if each is not None}
    return [dict(zip(begins, column, strict=True)) for column in zip(*begins.values(), strict=True)]


def _each(stacked: Tensor) -> list[int]:
    """Where each layer's part of a contiguous tensor begins."""
    count, first = stacked.shape[0], stacked.data_ptr()
    if not first:  # no numbers
        return [0] * count
    step = stacked.stride(0) * stacked.element_size()
    return list(range(first, first + count * step, step))


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


def _projections_adjoint(
    g_theta: Tensor, g_delta: Tensor, z: Tensor, g_z: Tensor, layer: Layer, g: Layer
) -> None:
    _project_adjoint(g_theta, z, g_z, layer.angle_weight, g.angle_weight, g.angle_bias)
    _project_adjoint(g_delta, z, g_z, layer.gate_weight, g.gate_weight, g.gate_bias)


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
