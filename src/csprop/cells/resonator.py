"""Resonators: channels with fixed frequencies whose memory the input decides, for signals and text."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Generator, Tensor, nn

from csprop.cells.options import Resonator, Shape
from csprop.ops.resonate import PARTS, moves, resonate
from csprop.ops.scan import turn, wide

SHORTEST, LONGEST = 1.5, 256.0
"""The memory of the first channel and of the last one at the start, in steps."""
GOLDEN = (math.sqrt(5) - 1) / 2


class ResonatorBlock(nn.Module):
    """h_t = α e^{iθ} h_{t−1} + √(1 − α²) z_t, read as Re(conj(s) h_t): see `csprop.ops.resonate`.

    Multiples of the golden section spread the angles of the channels over 0 to π, so neighbours, which
    remember for about as long, differ.
    """

    inputs, outputs = PARTS, 1
    """Numbers per channel in the input and in the output of a step."""

    order = 2

    def __init__(self, cell: Resonator, shape: Shape, generator: Generator) -> None:
        super().__init__()
        self.theta = nn.Parameter(math.pi * (GOLDEN * torch.arange(shape.width) % 1))

    @torch.no_grad()
    def spread(self, enter: nn.Linear) -> None:
        """Set a bias so that the channels have memories from SHORTEST to LONGEST."""
        memory = torch.linspace(math.log(SHORTEST), math.log(LONGEST), len(self.theta)).exp()
        enter.bias.unflatten(0, (PARTS, -1))[2] = (memory - 1).log()  # κ, with σ(κ) = 1 − 1 / memory

    @property
    def start(self) -> Float[Tensor, "2 D"]:
        """h_0, which is 0."""
        return torch.zeros_like(self.theta).expand(2, -1)

    def forward(
        self,
        entries: Float[Tensor, "*E 5 D"],
        state: Float[Tensor, "B 2 D"],
        reset: Bool[Tensor, "B T"] | None = None,
        index: Int64[Tensor, "B T"] | None = None,
    ) -> tuple[Float[Tensor, "B T 1 D"], Float[Tensor, "B 2 D"]]:
        """Return the output of every step, and the last state; with `index`, entries are a table."""
        y, last = resonate(entries, self.theta, state, reset, index)
        return y[:, :, None], last

    def advance(
        self,
        entries: Float[Tensor, "B 5 D"],
        state: Float[Tensor, "B 2 D"],
        settle: Callable[[Tensor], Tensor] = lambda h: h,
    ) -> tuple[Float[Tensor, "B 1 D"], Float[Tensor, "B 2 D"]]:
        """Take one step in torch operations; `settle` replaces the new state."""
        entry = wide(entries)
        a, u, read = moves(entry, torch.stack([self.theta.cos(), self.theta.sin()]).to(entry))
        h = settle(turn(a, state.to(entry)) + u)
        return (read * h).sum(dim=1, keepdim=True).to(entries.dtype), h
