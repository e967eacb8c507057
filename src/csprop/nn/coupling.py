"""The low-rank coupling of the paper's future work: u vᵀ h^{(l−1)} enters the recurrence of layer l."""

import math

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn


class Coupling(nn.Module):
    """h ↦ u vᵀ h on each plane, u and v real (d, r). u starts at 0: a fresh model is uncoupled."""

    def __init__(self, width: int, rank: int, generator: Generator) -> None:
        super().__init__()
        self.u = nn.Parameter(torch.zeros(width, rank))
        self.v = nn.Parameter(torch.randn(width, rank, generator=generator) / math.sqrt(width))

    def forward(self, h: Float[Tensor, "B T M D"]) -> Float[Tensor, "B T M D"]:
        return h @ self.v @ self.u.T
