"""Attention with rotary positions is what a loop over steps says, and knows distances alone."""

import cmath
import math

import pytest
import torch
from torch import Tensor

from csprop_lab.layers.attention import Attention, rotate


def by_loop(layer: Attention, x: Tensor) -> Tensor:
    """One sequence (T, width): pairs of features are complex numbers, turned by their position."""
    width = x.shape[1]
    size, rows = width // 4, []
    projected = [layer.project.weight @ step + layer.project.bias for step in x]

    def turned(t: int, start: int) -> list[complex]:
        part = projected[t][start : start + size].tolist()
        return [
            complex(part[i], part[i + 1]) * cmath.exp(1j * t * 10_000 ** (-i / size))
            for i in range(0, size, 2)
        ]

    for t in range(len(x)):
        heads = []
        for head in range(4):
            start = head * size
            query, scores = turned(t, start), []
            for s in range(t + 1):
                key = turned(s, width + start)
                products = (q.conjugate() * k for q, k in zip(query, key, strict=True))
                scores.append(math.exp(sum(product.real for product in products) / math.sqrt(size)))
            values = [projected[s][2 * width + start :][:size] for s in range(t + 1)]
            mixed = [score * value for score, value in zip(scores, values, strict=True)]
            heads.append(torch.stack(mixed).sum(0) / sum(scores))
        rows.append(layer.out.weight @ torch.cat(heads) + layer.out.bias)
    return torch.stack(rows)


@pytest.mark.parametrize("steps", [1, 2, 17])
def test_the_layer_is_its_loop(steps: int) -> None:
    torch.manual_seed(0)
    layer, x = Attention(16).double(), torch.randn(2, steps, 16, dtype=torch.float64)
    with torch.no_grad():
        want = torch.stack([by_loop(layer, row) for row in x])
        torch.testing.assert_close(layer(x), want, rtol=1e-8, atol=1e-8)


def test_scores_depend_on_the_distance_alone() -> None:
    torch.manual_seed(1)
    query, key = torch.randn(2, 1, 8, dtype=torch.float64)
    scores = rotate(query.expand(9, 8)) @ rotate(key.expand(9, 8)).mT
    for distance in range(-8, 9):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    assert scores[0].diff().abs().min() > 1e-6
