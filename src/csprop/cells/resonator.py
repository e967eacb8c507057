"""Resonators as a module: a block for features, whose channels are filters of one frequency each."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from csprop.ops.checks import check_tensor
from csprop.ops.planes import turn, wide
from csprop.ops.resonate import PARTS, moves, resonate

SHORTEST, LONGEST = 1.5, 256.0
"""Steps that the first channel remembers at the start, and the last one."""
GOLDEN = (math.sqrt(5) - 1) / 2


class Resonator(nn.Module):
    """h_t = α e^{iθ} h_{t−1} + √(1 − α²) z_t, read as Re(conj(s) h_t): see `csprop.ops.resonate`.

    Multiples of the golden section spread the angles of the channels over 0 to π, so that neighbours,
    which remember about as long, differ.
    """

    inputs, outputs = PARTS, 1
    """Numbers of a channel that a step is given, and that it gives."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.theta = nn.Parameter(math.pi * (GOLDEN * torch.arange(width) % 1))

    @torch.no_grad()
    def spread(self, enter: nn.Linear) -> None:
        """Let the bias of what makes entries give the channels memories from SHORTEST to LONGEST."""
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
        """What is read after every step, and the last state; with `index`, entries are a table.

        Raises InputError for what is no tensor of the right shape, type and device.
        """
        device, width = self.theta.device, len(self.theta)
        sizes = ("batch", "time") if index is None else ("rows",)
        check_tensor("entries", entries, "floating-point", (*sizes, PARTS, width), device)
        steps = entries.shape[:2] if index is None else index.shape
        check_tensor("state", state, "floating-point", (steps[0], 2, width), device)
        if reset is not None:
            check_tensor("reset", reset, "bool", steps, device)
        y, last = resonate(entries, self.theta, state, reset, index)
        return y[:, :, None], last

    def advance(
        self,
        entries: Float[Tensor, "B 5 D"],
        state: Float[Tensor, "B 2 D"],
        settle: Callable[[Tensor], Tensor] = lambda h: h,
    ) -> tuple[Float[Tensor, "B 1 D"], Float[Tensor, "B 2 D"]]:
        """One step, in torch operations alone; what is kept of the new state is `settle` of it."""
        given = wide(entries)
        a, u, read = moves(given, torch.stack([self.theta.cos(), self.theta.sin()]).to(given))
        h = settle(turn(a, state.to(given)) + u)
        return (read * h).sum(dim=1, keepdim=True).to(entries.dtype), h
