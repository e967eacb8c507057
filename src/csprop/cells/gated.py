"""The base of rotors and switches: a gate keeps the state, or replaces it by a point of the sphere.

ρ_t          0 or 1 in each channel: 1 where δ_t = Linear(z_t) > 0, with the gradient of σ(δ_t)
h_0          a learned point of the unit sphere                                     (M, D)
"""

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from csprop.cells.block import Block, linear, unit
from csprop.ops.scan import wide


class GatedBlock(Block):
    """A layer whose states are on the unit sphere."""

    def make_gate(self, bias: tuple[float, float], generator: Generator) -> None:
        """Draw the gate; its bias goes from the first number, in the first channel, to the last."""
        self.gate = linear(self.order * self.width, self.width, generator)
        self.gate.bias = nn.Parameter(torch.linspace(*bias, self.width))

    def keep(self, z: Float[Tensor, "B T M D"]) -> Float[Tensor, "B T D"]:
        """Return ρ."""
        delta = wide(self.gate(z.flatten(2)))
        soft = torch.sigmoid(delta)
        return (delta > 0).to(soft) + (soft - soft.detach())

    @property
    def start(self) -> Float[Tensor, "M D"]:
        """h_0, on the unit sphere."""
        return unit(self.h0, epsilon=0.0)
