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

from csprop.cells.block import Transition, add_skip, draw_on_sphere, linear, polar, unit
from csprop.cells.gated import GatedBlock
from csprop.cells.options import Rotor, Shape
from csprop.cells.rotations import ANGLE_LIMIT, count_angles, rotate, skew_basis
from csprop.ops.scan import wide

# A gate that is rounded keeps all of the state; some must start near 0 to learn to let go
# (docs/notes/exact.md). Layers of a stack have more to let go.
GATE_BIAS, STACKED_BIAS = (0.5, 6.0), (1.0, 1.0)  # of the first channel, and of the last
# Angles of a lone layer start about a radian wide: near the identity rotations are all alike, and a
# group is hard to find. A stack does better without.
SPREAD = 4.0


class RotorBlock(GatedBlock):
    """A layer of rotors, with the options of `Rotor`."""

    cell: Rotor

    def __init__(self, cell: Rotor, shape: Shape, generator: Generator) -> None:
        super().__init__(cell, shape, generator)
        width, order, alone = shape.width, cell.order, shape.depth == 1
        skew_basis(order)  # made before torch traces anything
        outputs, spread = count_angles(order) * width, SPREAD if alone else 1.0
        self.angle = linear(order * width, outputs, generator, spread=spread)
        self.make_gate(GATE_BIAS if alone else STACKED_BIAS, generator)
        self.skip = nn.Parameter(torch.full((width,), 0.5)) if cell.skip else None
        self.recalls = cell.recall
        if cell.recall:
            self.recall = nn.Parameter(torch.randn(width, generator=generator))
        self.learn_start(draw_on_sphere(order, width, generator))

    def __setstate__(self, state: dict[str, object]) -> None:
        super().__setstate__(state)
        skew_basis(self.order)

    def transition(self, z: Float[Tensor, "B T M D"]) -> Transition:
        """Return ρ Q, complex or, beyond order 2, a matrix; and (1 − ρ) z / |z|."""
        keep = self.keep(z)
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
        return super().finish(h if before is None else h + self.recall * before, z)

    @property
    def kernel_options(self) -> dict[str, int | str]:
        return {"rotate": "state", "decay": "switch"}
