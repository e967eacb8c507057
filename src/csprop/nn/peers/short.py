"""Two small parts that several layers have: a short convolution, and a linear map in blocks."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class ShortConv(nn.Module):
    """Each feature as a weighted sum of its last four values, with a bias; drawn as torch's Conv1d is."""

    def __init__(self, width: int, taps: int = 4) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(taps, width).uniform_(-1, 1) / math.sqrt(taps))
        self.bias = nn.Parameter(torch.empty(width).uniform_(-1, 1) / math.sqrt(taps))

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        steps, taps = x.shape[1], len(self.weight)
        padded, y = F.pad(x, (0, 0, taps - 1, 0)), self.bias
        for tap, weight in enumerate(self.weight):
            y = torch.addcmul(y, padded[:, tap : tap + steps], weight)
        return y


class Blocks(nn.Module):
    """A block-diagonal linear map without a bias: each of `blocks` groups of features to itself.

    With `maps` there are that many of them side by side, which read the same input. The weights, (blocks,
    maps, features out, features in), are normal with the variance 2/(5 · fan) of a small initialisation.
    """

    def __init__(self, width: int, blocks: int, maps: int, fan: int) -> None:
        super().__init__()
        size = width // blocks
        self.weight = nn.Parameter(torch.randn(blocks, maps, size, size) * math.sqrt(0.4 / fan))

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T K M S"]:
        """Of K blocks, M maps and S features."""
        blocks, _, _, size = self.weight.shape
        return torch.einsum("btkd,kmsd->btkms", x.unflatten(2, (blocks, size)), self.weight)
