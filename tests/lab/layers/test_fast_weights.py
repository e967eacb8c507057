import inspect

import pytest
import torch
from torch import Tensor
from transformers.models.qwen3_next.modeling_qwen3_next import torch_recurrent_gated_delta_rule  # pyright: ignore

from csprop_lab.layers.fast_weights import FastWeights
from tests.helpers import mixers


def parts(layer: FastWeights, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    q, k, v, beta = layer.project(x).split([64, 64, 64, 4], dim=2)
    return mixers.heads(q), mixers.heads(k), mixers.heads(v), beta.sigmoid()


def features(k: Tensor) -> Tensor:
    """Equation 37 of the paper with ν = 1, one feature at a time, and its sum normalisation."""
    r = [k[..., i].clamp(min=0) for i in range(16)] + [(-k[..., i]).clamp(min=0) for i in range(16)]
    phi = torch.stack([r[i] * r[i - 1] for i in range(32)], dim=-1)
    return phi / (phi.sum(-1, keepdim=True) + 1e-6)


def recurrence(layer: FastWeights, x: Tensor) -> Tensor:
    """Equations 23 to 25 of the paper, step by step."""
    query, key, value, rate = parts(layer, x)
    fast = x.new_zeros(len(x), 4, 16, 32)
    read = []
    for i in range(x.shape[1]):
        k = features(key[:, i])
        stored = torch.einsum("bhvk,bhk->bhv", fast, k)
        change = rate[:, i, :, None] * (value[:, i] - stored)
        fast = fast + torch.einsum("bhv,bhk->bhvk", change, k)
        read.append(torch.einsum("bhvk,bhk->bhv", fast, features(query[:, i])).flatten(1))
    return layer.out(torch.stack(read, dim=1))


@pytest.mark.parametrize("steps", [1, 40, 64, 150])
def test_it_is_the_recurrence_of_the_paper(steps: int) -> None:
    layer, x = FastWeights(64).double(), torch.randn(3, steps, 64).double()
    torch.testing.assert_close(layer(x), recurrence(layer, x), rtol=0, atol=1e-10)


@pytest.mark.parametrize("steps", [40, 150])
def test_it_is_the_delta_rule_of_another_library(steps: int) -> None:
    layer, x = mixers.drawn(FastWeights(64)), torch.randn(3, steps, 64)
    q, k, v, beta = parts(layer, x)
    mixed = inspect.unwrap(torch_recurrent_gated_delta_rule)(
        features(q) * 32**0.5, features(k), v, torch.zeros_like(beta), beta
    )[0]
    torch.testing.assert_close(layer(x), layer.out(mixed.flatten(2)), rtol=0, atol=1e-4)


def test_a_value_is_read_back_as_it_was_last_written() -> None:
    """With β near 1 a key that has one feature gives the newest of its values, not a sum of them."""
    layer = FastWeights(64)
    with torch.no_grad():
        layer.project.weight.zero_()
        layer.project.weight[[0, 1, 64, 65], 0] = 1.0  # the query and the key of the first head
        layer.project.weight[128, 1] = 1.0  # its value
        layer.project.weight[192, 0] = 20.0  # its rate
        layer.out.weight.copy_(torch.eye(64))
        x = torch.zeros(1, 3, 64)
        x[0, :, 0], x[0, :, 1] = 1.0, torch.tensor([5.0, -2.0, 7.0])
        torch.testing.assert_close(layer(x)[0, :, 0], x[0, :, 1], rtol=0, atol=1e-4)
