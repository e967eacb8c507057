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
        query, key, value = self.project(x).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        query, key = rotated(query), rotated(key)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


def rotated(x: Tensor) -> Tensor:
    """Turn pairs of features (…, T, D) by angles that grow with the position, at D/2 rates."""
    steps, features = x.shape[-2:]
    rates = 10_000 ** (-torch.arange(0, features, 2, dtype=x.dtype) / features)
    angles = torch.arange(steps, dtype=x.dtype)[:, None] * rates
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)
