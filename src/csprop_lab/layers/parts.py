"""Parts that several layers have: a short convolution, and the first step sizes of state spaces."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


class ShortConvolution(nn.Module):
    """Convolve every channel by itself with its own few weights over the last `taps` steps.

    It is torch's depthwise Conv1d, weights and all, as a sum over the taps, which takes less time.
    """

    def __init__(self, channels: int, taps: int = 4, bias: bool = True) -> None:
        super().__init__()
        bound = taps**-0.5
        self.weight = nn.Parameter(torch.empty(taps, channels).uniform_(-bound, bound))
        self.bias: Tensor
        if bias:
            self.bias = nn.Parameter(torch.empty(channels).uniform_(-bound, bound))
        else:
            self.register_buffer("bias", torch.zeros(channels), persistent=False)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        padded = nn.functional.pad(x, (0, 0, len(self.weight) - 1, 0))
        y = self.bias
        for tap, weight in enumerate(self.weight):  # the last one is for the present step
            y = torch.addcmul(y, padded[:, tap : tap + x.shape[1]], weight)
        return y


def log_steps(*shape: int, low: float = 1e-3, high: float = 1e-1) -> Tensor:
    """Draw logarithms of step sizes Δ, uniform between the logarithms of `low` and `high`."""
    return torch.empty(shape).uniform_(math.log(low), math.log(high))


def inverse_softplus(x: Tensor) -> Tensor:
    """Return the number whose softplus is x, for x > 0."""
    return x + torch.log(-torch.expm1(-x))
