"""The printed block: rotate, recur, activate, skip, normalise.

    paper        here
    z_t          z, the layer's input                        (B, T, 2, D)
    θ_t          theta = π tanh(W_θ Re z)                    (B, T, 1 or D)
    δ_t          delta = Linear([Re z, Im z])                (B, T, 1 or D)
    α_t, γ_t     alpha, gamma from delta                     (B, T, 1 or D)
    h_t          α_t h_{t−1} + γ_t e^{iθ_t} z_t              (B, T, 2, D)
    σ(g)         the skip's strength, one g per channel      (D,)
    output       n / (|n| + 1e-8), n = SiLU(h) + σ(g) ⊙ z    (B, T, 2, D)

α_t may exceed 1, so states can grow: `scan` scales a modulus beyond 2^60 back to it, keeping the phase.

Adjoint, with g_t the gradient of h_t and λ_t = g_t + α_{t+1} λ_{t+1} from the last step on:

    ∂u_t = λ_t,  ∂α_t = Re⟨λ_t, h_{t−1}⟩,  ∂h_0 = α_1 λ_1

where u_t = γ_t e^{iθ_t} z_t, so ∂z_t = γ_t e^{−iθ_t} λ_t, ∂γ_t = Re⟨λ_t, e^{iθ_t} z_t⟩ and
∂θ_t = Re⟨λ_t, i u_t⟩, beside what reaches z_t through θ, δ and the skip.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Generator, Tensor, nn

from csprop.cells.block import Block, Transition, add_skip, draw_on_sphere, linear, polar, unit
from csprop.cells.options import Paper, Shape
from csprop.ops.scan import scan_by_steps, turn, wide


class PaperBlock(Block):
    """The printed block, with the options of `Paper`."""

    cell: Paper

    def __init__(self, cell: Paper, shape: Shape, generator: Generator) -> None:
        super().__init__(cell, shape, generator)
        width = shape.width
        if cell.rotate != "none":
            angles = width if cell.rotation == "per_channel" else 1
            self.angle = linear(width, angles, generator, bias=False)
        self.gate = linear(2 * width, width if cell.gate == "per_channel" else 1, generator)
        self.skip = nn.Parameter(torch.full((width,), 0.5)) if cell.skip else None
        self.has_unit_output = cell.norm == "complex"
        if cell.norm == "layer":
            self.norm = nn.LayerNorm(2 * width)
        if cell.h0 == "learned":
            self.learn_start(draw_on_sphere(2, width, generator))

    def transition(self, z: Float[Tensor, "B T 2 D"]) -> Transition:
        """Return a and u: α and γ e^{iθ} z, or α e^{iθ} and γ z if the state is rotated."""
        alpha, gamma = self.decay(z)
        u = gamma[:, :, None] * z
        if self.cell.rotate == "none":
            return alpha[:, :, None], u
        theta = self.theta(z)
        if self.cell.rotate == "state":
            return polar(alpha, theta), u
        return alpha[:, :, None], turn(polar(torch.ones_like(theta), theta), u)

    def theta(self, z: Float[Tensor, "B T 2 D"]) -> Float[Tensor, "B T E"]:
        """Return the angle of every step."""
        return math.pi * torch.tanh(wide(self.angle(z[:, :, 0])))

    def decay(
        self, z: Float[Tensor, "B T 2 D"]
    ) -> tuple[Float[Tensor, "B T E"], Float[Tensor, "B T E"]]:
        """Return α and γ."""
        gamma = F.softplus(wide(self.gate(z.flatten(2))))
        if self.cell.decay == "exp":
            return torch.exp(-gamma), gamma
        return (gamma if self.cell.decay == "softplus" else torch.ones_like(gamma)), gamma

    def recur(
        self, transition: Transition, state: Tensor, reset: Tensor | None, coupled: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return all states, and the last one; with SiLU in every step they are a loop."""
        if self.cell.activation != "step":
            return super().recur(transition, state, reset, coupled)
        a, u = self._entering(transition, reset, coupled)
        h = scan_by_steps(a, u, state, reset, F.silu)
        return h, h[:, -1] if h.shape[1] else state

    def advance(self, z: Tensor, state: Tensor, coupled: Tensor | None = None) -> Tensor:
        """Return the state after one more step."""
        h = super().advance(z, state, coupled)
        return F.silu(h) if self.cell.activation == "step" else h

    def finish(self, h: Tensor, z: Tensor, before: Tensor | None = None) -> Tensor:
        """Apply SiLU to each plane, the skip and the norm."""
        if self.cell.activation == "boundary":
            h = F.silu(h)
        h = add_skip(h, self.skip, z)
        if self.cell.norm == "complex":
            return unit(h).to(z.dtype)
        h = super().finish(h, z)
        return self.norm(h.flatten(2)).unflatten(2, (2, -1)) if self.cell.norm == "layer" else h

    @property
    def kernel_options(self) -> dict[str, int | str]:
        names = ("rotate", "decay", "activation", "norm")
        return {"bounded_angle": 1, **{name: getattr(self.cell, name) for name in names}}
