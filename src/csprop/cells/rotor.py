"""Rotors: a gate keeps and turns the state, or replaces it by the input.

    h_t = ρ_t Q_t h_{t−1} + (1 − ρ_t) z_t / |z_t|

    ρ_t          0 or 1 in each channel: 1 where δ_t = Linear(z_t) > 0, with the gradient of σ(δ_t)
    Q_t          a rotation of SO(m) from m(m − 1)/2 angles, Linear(z_t); e^{iθ_t} for m = 2
    h_t          on the unit sphere of m dimensions                                     (B, T, m, D)
    output       h_t + σ(g) ⊙ z_t + b ⊙ h_{t−1}; the last two are options

With `parts`, the phase of h_t from h_0 is 2π c_t / k where training gives a channel a k; c_t is exact
after any number of tokens (m = 2). Gradients pass straight through what is rounded.

    c_t = (c_{t−1} + q_t) mod k, q_t = round(k θ_t / 2π); or round(k arg(z_t / h_0) / 2π) where ρ_t = 0

Adjoint, with g_t the gradient of h_t and λ_t = g_t + ρ_{t+1} Q_{t+1}ᵀ λ_{t+1}: ∂u_t = λ_t,
∂(ρ_t Q_t) = λ_t h_{t−1}ᵀ and ∂h_0 = ρ_1 Q_1ᵀ λ_1.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from csprop.cells.block import GatedBlock, Transition, add_skip, draw_on_sphere, linear, polar, unit
from csprop.cells.options import Rotor, Shape
from csprop.cells.rotations import ANGLE_LIMIT, count_angles, rotate, skew_basis
from csprop.ops.scan import turn, wide

# A gate that is rounded keeps all of the state; some must start near 0 to learn to let go
# (docs/notes/exact.md). Layers of a stack have more to let go.
GATE_BIAS, STACKED_BIAS = (0.5, 6.0), (1.0, 1.0)  # of the first channel, and of the last
# Angles of a lone layer start about a radian wide: near the identity rotations are all alike, and a
# group is hard to find. A stack does better without.
SPREAD = 4.0


class RotorBlock(GatedBlock):
    """A layer of rotors, with the options of `Rotor`."""

    cell: Rotor
    parts: Tensor | None

    def __init__(self, cell: Rotor, shape: Shape, generator: Generator) -> None:
        super().__init__(cell, shape, generator)
        width, order, alone = shape.width, cell.order, shape.depth == 1
        skew_basis(order)  # made before torch traces anything
        outputs, spread = count_angles(order) * width, SPREAD if alone else 1.0
        self.angle = linear(order * width, outputs, generator, spread=spread)
        self.make_gate(GATE_BIAS if alone else STACKED_BIAS, generator)
        self.skip = nn.Parameter(torch.full((width,), 0.5)) if cell.skip else None
        self.register_buffer("parts", torch.zeros(width) if cell.parts and order == 2 else None)
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
        u, theta = (1 - keep)[:, :, None] * self.snap(unit(z)), self.theta(z)
        if self.order == 2:
            return polar(keep, theta), u
        angles = theta.unflatten(2, (count_angles(self.order), -1))
        return keep[:, :, None, None] * rotate(angles, self.order), u

    def theta(self, z: Float[Tensor, "B T M D"]) -> Float[Tensor, "B T E"]:
        """Return the angles of every step; beyond order 2, several for each rotation."""
        theta = wide(self.angle(z.flatten(2))).clamp(-ANGLE_LIMIT, ANGLE_LIMIT)
        return theta if self.parts is None else self.whole(theta).detach() + (theta - theta.detach())

    def whole(self, theta: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch D"]:
        """Return the nearest whole multiples of 2π/k; where k is 0, the angles themselves."""
        parts = self.get_buffer("parts")
        part = 2 * math.pi / wide(parts)
        return torch.where(parts > 0, (theta / part).round() * part, theta)

    def phase(self, h: Float[Tensor, "*batch M D"]) -> Float[Tensor, "*batch D"]:
        """Return the phases of states from h_0."""
        re, im = turn(self.start * self.start.new_tensor([[1.0], [-1.0]]), h).unbind(-2)
        return torch.atan2(im, re)

    def sureness(self, angles: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch D"]:
        """Return how far k θ / 2π is from where it would be rounded to the next whole number."""
        parts = self.get_buffer("parts")
        turns = angles * wide(parts) / (2 * math.pi)
        return torch.where(parts > 0, 0.5 - (turns - turns.round()).abs(), math.inf)

    def snap(self, h: Float[Tensor, "*batch M D"]) -> Float[Tensor, "*batch M D"]:
        """Move states to whole phases from h_0, with the gradient of h."""
        if self.parts is None:
            return h
        phase = self.whole(self.phase(h))
        whole = turn(polar(torch.ones_like(phase), phase), self.start.expand_as(h))
        return torch.where(self.parts > 0, whole, h).detach() + (h - h.detach())

    def recur(self, *args: Any, **named: Any) -> tuple[Tensor, Tensor]:
        h, last = super().recur(*args, **named)
        return h, self.snap(last)

    def advance(self, *args: Any, **named: Any) -> Float[Tensor, "B M D"]:
        return self.snap(super().advance(*args, **named))

    def finish(self, h: Tensor, z: Tensor, before: Tensor | None = None) -> Tensor:
        """Add the skip, and the state before."""
        h = add_skip(h, self.skip, z)
        return super().finish(h if before is None else h + self.recall * before, z)

    @property
    def kernel_options(self) -> dict[str, int | str]:
        return {"rotate": "state", "decay": "switch"}
