import inspect

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.models.qwen3_next.modeling_qwen3_next import torch_recurrent_gated_delta_rule  # pyright: ignore

from csprop_lab.layers.gated_deltanet import GatedDeltaNet, GatedDeltaProduct
from tests.helpers import mixers


def parts(layer: GatedDeltaNet, x: Tensor) -> tuple[Tensor, ...]:
    """q (B, T, H, D), k and v (B, T, 2, H, D), β (B, T, 2, H), log α (B, T, H) and the gate."""
    qkv, gate, beta, step = layer.project(x).split([320, 64, 8, 4], dim=2)
    window = F.conv1d(F.pad(qkv.mT, (3, 0)), layer.convolution.weight.mT[:, None], groups=320).mT
    q, k, v = F.silu(window).split([64, 128, 128], dim=2)
    k, v = (y.unflatten(2, (2, 4, 16)) for y in (k, v))
    q, k = (y / (y.square().sum(-1, keepdim=True) + 1e-6).sqrt() for y in (mixers.heads(q), k))
    log_alpha = -layer.log_rate.exp() * F.softplus(step + layer.step_bias)
    return q, k, v, 2 * beta.sigmoid().unflatten(2, (2, 4)), log_alpha, gate


def finished(layer: GatedDeltaNet, out: Tensor, gate: Tensor) -> Tensor:
    """What is read, (B, T, H, D), normalised, gated and projected."""
    out = layer.weight * out / (out.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    return layer.out(out.flatten(2) * F.silu(gate))


def recurrence(layer: GatedDeltaProduct, x: Tensor) -> Tensor:
    """The paper's products of generalized Householder matrices, step by step."""
    q, k, v, beta, log_alpha, gate = parts(layer, x)
    state, read = x.new_zeros(len(x), 4, 16, 16), []
    for t in range(x.shape[1]):
        state = log_alpha[:, t].exp()[..., None, None] * state
        for j in range(2):
            key, rate = k[:, t, j, :, None], beta[:, t, j, :, None, None]
            state = (
                state @ (torch.eye(16).to(x) - rate * key.mT * key) + rate * v[:, t, j, ..., None] * key
            )
        read.append((state @ q[:, t, ..., None])[..., 0] / 4)
    return finished(layer, torch.stack(read, dim=1), gate)


@pytest.mark.parametrize("steps", [1, 40, 64, 150])
def test_it_is_the_recurrence_of_the_paper(steps: int) -> None:
    layer = mixers.drawn(GatedDeltaProduct(64)).double()
    x = torch.randn(3, steps, 64).double()
    torch.testing.assert_close(layer(x), recurrence(layer, x), rtol=0, atol=1e-9)


@pytest.mark.parametrize("steps", [40, 150])
def test_it_is_two_steps_of_the_rule_of_another_library(steps: int) -> None:
    layer, x = mixers.drawn(GatedDeltaProduct(64)), torch.randn(3, steps, 64)
    q, k, v, beta, log_alpha, gate = parts(layer, x)
    log_alpha = torch.stack([log_alpha, torch.zeros_like(log_alpha)], dim=2)
    q = torch.stack([q, q], dim=2)
    steps_of_rule = (y.flatten(1, 2) for y in (q, k, v, log_alpha, beta))
    out = inspect.unwrap(torch_recurrent_gated_delta_rule)(*steps_of_rule)[0][:, 1::2]
    torch.testing.assert_close(layer(x), finished(layer, out, gate), rtol=0, atol=1e-4)
