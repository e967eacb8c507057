"""The short convolution that several layers have."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class ShortConv(nn.Module):
    """Each feature as a weighted sum of its last values, with a bias; drawn as torch's Conv1d is."""

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
