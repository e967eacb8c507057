"""The short convolution that several layers have."""

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
        for tap, weight in enumerate(self.weight):  # the last one is that of the present
            y = torch.addcmul(y, padded[:, tap : tap + x.shape[1]], weight)
        return y
