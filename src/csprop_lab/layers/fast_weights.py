"""A fast weight programmer: a memory that is corrected by the delta rule."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from csprop_lab.layers.delta_rule import delta_rule

HEADS = 4


class FastWeights(nn.Module):
    """The DeltaNet of Schlag et al.

    W_i = W_{i−1} + β_i (v_i − W_{i−1} φ(k_i)) ⊗ φ(k_i), read as W_i φ(q_i), in four heads, with β =
    σ(·) and φ the paper's DPFP (ν = 1): of r = relu([k, −k]) the products of neighbours r_i r_{i−1},
    in a circle, divided by their sum. 1e-6 is added to that sum, which is 0 for k = 0.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(width, 3 * width + HEADS, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        width = x.shape[2]
        vectors, rate = self.project(x).split([3 * width, HEADS], dim=2)
        query, key, value = vectors.unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4).contiguous()
        query, key = dpfp(query), dpfp(key)
        beta = rate.sigmoid().mT[..., None]
        mixed = delta_rule(query, key, beta * value, -beta * key, torch.zeros_like(beta))
        return self.out(mixed.transpose(1, 2).flatten(2))


def dpfp(x: Tensor) -> Tensor:
    """The deterministic parameter-free projection of (…, D) to 2 D features with the sum 1."""
    r = F.relu(torch.cat([x, -x], dim=-1))
    features = r * r.roll(1, dims=-1)
    return features / (features.sum(dim=-1, keepdim=True) + 1e-6)
