"""Rotors: a gate keeps and turns the state, or replaces it by the input.

    h_t = ρ_t Q_t h_{t−1} + (1 − ρ_t) z_t / |z_t|

    ρ_t          0 or 1 in each channel: 1 where δ_t = Linear(z_t) > 0, with the gradient of σ(δ_t)
    Q_t          a rotation of SO(m) from m(m − 1)/2 angles, Linear(z_t); e^{iθ_t} for m = 2
    h_t          on the unit sphere of m dimensions                                     (B, T, m, D)
    output       h_t + σ(g) ⊙ z_t + b ⊙ h_{t−1}; the last two are options

Adjoint, with g_t the gradient of h_t and λ_t = g_t + ρ_{t+1} Q_{t+1}ᵀ λ_{t+1}: ∂u_t = λ_t,
∂(ρ_t Q_t) = λ_t h_{t−1}ᵀ and ∂h_0 = ρ_1 Q_1ᵀ λ_1.
"""

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from csprop.cells.block import (
    OUTPUT_LIMIT,
    Block,
    Numbering,
    Transition,
    add_skip,
    draw_on_sphere,
    switch_gate,
)
from csprop.cells.options import Rotor, Shape
from csprop.cells.parts import linear, polar, unit
from csprop.cells.rotations import count_angles, prepare, rotate
from csprop.ops.planes import ANGLE_LIMIT, narrow, saturate, wide

# A gate that is rounded keeps all of the state; some must start near 0 to learn to let go
# (docs/notes/exact.md). Layers of a stack have more to let go.
GATE_BIAS, STACKED_BIAS = (0.5, 6.0), (1.0, 1.0)  # of the first channel, and of the last
# Angles of a lone layer start about a radian wide: near the identity rotations are all alike, and a
# group is hard to find. A stack does better without.
SPREAD = 4.0


class RotorBlock(Block):
    """A layer of rotors, with the options of `Rotor`."""

    cell: Rotor

    def __init__(self, cell: Rotor, shape: Shape, generator: Generator) -> None:
        super().__init__(cell, shape, generator)
        width, order, alone = shape.width, cell.order, shape.depth == 1
        prepare(order)
        outputs, spread = count_angles(order) * width, SPREAD if alone else 1.0
        self.angle = linear(order * width, outputs, generator, spread=spread)
        self.gate = linear(order * width, width, generator)
        self.gate.bias = nn.Parameter(torch.linspace(*(GATE_BIAS if alone else STACKED_BIAS), width))
        self.skip = nn.Parameter(torch.full((width,), 0.5)) if cell.skip else None
        self.recalls = cell.recall
        if cell.recall:
            self.recall = nn.Parameter(torch.randn(width, generator=generator))
        self.learn_start(draw_on_sphere(order, width, generator))

    def __setstate__(self, state: dict[str, object]) -> None:
        super().__setstate__(state)
        prepare(self.order)

    @property
    def start(self) -> Float[Tensor, "M D"]:
        """h_0, on the unit sphere."""
        return unit(self.h0, epsilon=0.0)

    def transition(self, z: Float[Tensor, "B T M D"]) -> Transition:
        """Return ρ Q, complex or, beyond order 2, a matrix; and (1 − ρ) z / |z|."""
        keep = switch_gate(wide(self.gate(z.flatten(2))))
        u, theta = (1 - keep)[:, :, None] * unit(z), self.theta(z)
        if self.order == 2:
            return polar(keep, theta), u
        angles = theta.unflatten(2, (count_angles(self.order), -1))
        return keep[:, :, None, None] * rotate(angles, self.order), u

    def theta(self, z: Float[Tensor, "B T M D"]) -> Float[Tensor, "B T E"]:
        """Return the angles of every step; beyond order 2, several for each rotation."""
        return wide(self.angle(z.flatten(2))).clamp(-ANGLE_LIMIT, ANGLE_LIMIT)

    def finish(self, h: Tensor, z: Tensor, before: Tensor | None = None) -> Tensor:
        """Add the skip, and the state before."""
        h = add_skip(h, self.skip, z)
        h = h if before is None else h + self.recall * before
        return narrow(saturate(h, OUTPUT_LIMIT), z.dtype)

    def describe_inputs(self, tensors: Numbering) -> dict[str, int]:
        return {
            "angles": self.angle.out_features,
            "angle_inputs": self.angle.in_features,
            "gates": self.gate.out_features,
            **tensors.linear("angle", self.angle),
            **tensors.linear("gate", self.gate),
        }

    def describe(self, tensors: Numbering) -> dict[str, int | str]:
        return {
            "rotate": "state",
            "decay": "switch",
            "activation": "none",
            "norm": "none",
            "skip": tensors.add(self.skip),
            "recall": tensors.add(self.recall if self.recalls else None),
            "start": tensors.add(self.h0),
        }
