"""Softmax attention over the past, with rotary positions."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HEADS = 4


class Attention(nn.Module):
    """The attention of a transformer: four heads, causal, queries and keys turned by their position."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.project(x).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4).contiguous()
        (query, key), value = rotate(parts[:2]), parts[2]
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


def rotate(x: Tensor) -> Tensor:
    """Turn pairs of features by their position, at the D/2 rates of rotary positions."""
    features = x.shape[-1]
    return turn_pairs(x, 10_000 ** (-torch.arange(0, features, 2, dtype=torch.float64) / features))


def turn_pairs(x: Tensor, rates: Tensor) -> Tensor:
    """Turn pairs of features (…, T, D) by their position times D/2 rates."""
    angles = torch.arange(x.shape[-2])[:, None] * rates
    turns = torch.polar(torch.ones_like(angles), angles).to(x.device, x.dtype.to_complex())
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * turns).flatten(-2)
