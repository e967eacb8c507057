"""Switches: a gate keeps the state, or sets it to a learned point for good.

    h_t = ρ_t h_{t−1} + (1 − ρ_t) p / |p|

    ρ_t          0 or 1 in each channel: 1 where δ_t = Linear(z_t) > 0, with the gradient of σ(δ_t)
    p            a learned point of each channel                                        (2, D)
    output       h_t + σ(g) ⊙ z_t

Stacked on counters, they remember what the counts have been. Adjoint: λ_t = g_t + ρ_{t+1} λ_{t+1},
∂ρ_t = ⟨λ_t, h_{t−1} − p / |p|⟩ and ∂(p / |p|) = Σ_t (1 − ρ_t) λ_t.
"""

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from csprop.cells.block import GatedBlock, Transition, add_skip, draw_on_sphere, unit
from csprop.cells.options import Shape, Switch

GATE_BIAS = (1.0, 4.0)  # of the first channel, and of the last: a switch must not be thrown too soon


class SwitchBlock(GatedBlock):
    """A layer of switches."""

    def __init__(self, cell: Switch, shape: Shape, generator: Generator) -> None:
        super().__init__(cell, shape, generator)
        width = shape.width
        self.make_gate(GATE_BIAS, generator)
        self.skip = nn.Parameter(torch.full((width,), 0.5))
        self.point = nn.Parameter(draw_on_sphere(2, width, generator))
        self.learn_start(draw_on_sphere(2, width, generator))

    @property
    def target(self) -> Float[Tensor, "2 D"]:
        """p / |p|, the state of a channel that has been switched."""
        return unit(self.point, epsilon=0.0)

    def transition(self, z: Float[Tensor, "B T 2 D"]) -> Transition:
        """Return ρ and (1 − ρ) p / |p|."""
        keep = self.keep(z)[:, :, None]
        return keep, (1 - keep) * self.target

    def finish(self, h: Tensor, z: Tensor, before: Tensor | None = None) -> Tensor:
        """Add the skip."""
        return super().finish(add_skip(h, self.skip, z), z)

    @property
    def kernel_options(self) -> dict[str, int | str]:
        return {"decay": "switch"}
