import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from csprop_lab.layers.linear_attention import LinearAttention
from tests.helpers import mixers


def recurrence(layer: LinearAttention, x: Tensor) -> Tensor:
    """Equations 16 to 20 of the paper, step by step, with positions as in its networks."""
    rates = 10_000 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    angles = torch.arange(x.shape[1], dtype=torch.float64)[:, None] * rates
    x = x.clone()
    x[..., ::2] += angles.sin()
    x[..., 1::2] += angles.cos()
    query, key, value = (mixers.heads(y) for y in layer.project(x).chunk(3, dim=2))
    attention = x.new_zeros(len(x), 4, 16, 16)
    normaliser = x.new_zeros(len(x), 4, 16)
    read = []
    for q, k, v in zip(query.unbind(1), key.unbind(1), value.unbind(1), strict=True):
        q, k = F.elu(q) + 1, F.elu(k) + 1
        attention = attention + torch.einsum("bhk,bhv->bhkv", k, v)
        normaliser = normaliser + k
        above, below = torch.einsum("bhk,bhkv->bhv", q, attention), (q * normaliser).sum(-1)
        read.append((above / (below[..., None] + 1e-6)).flatten(1))
    return layer.out(torch.stack(read, dim=1))


@pytest.mark.parametrize("steps", [1, 40, 64, 150])
def test_it_is_the_recurrence_of_the_paper(steps: int) -> None:
    layer, x = LinearAttention(64).double(), torch.randn(3, steps, 64).double()
    torch.testing.assert_close(layer(x), recurrence(layer, x), rtol=0, atol=1e-4)


def test_weights_of_the_past_sum_to_one() -> None:
    """The same value at every step is given back, as by softmax attention."""
    layer = LinearAttention(64)
    with torch.no_grad():
        layer.project.weight[128:] = 0.0
        layer.out.weight.copy_(torch.eye(64))
        layer.out.bias.zero_()
        given = layer(torch.randn(2, 150, 64))
    torch.testing.assert_close(given, layer.project.bias[128:].expand(2, 150, 64), rtol=0, atol=1e-5)
