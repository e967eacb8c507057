import inspect

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import Qwen3NextConfig  # pyright: ignore
from transformers.models.qwen3_next import modeling_qwen3_next as qwen  # pyright: ignore

from csprop_lab.layers.gated_deltanet import GatedDeltaNet
from tests.helpers import mixers


def published(layer: GatedDeltaNet) -> qwen.Qwen3NextGatedDeltaNet:
    """The layer of transformers, with the same weights: it orders its projections by head."""
    config = Qwen3NextConfig(
        hidden_size=64,
        linear_num_value_heads=4,
        linear_num_key_heads=4,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
        linear_conv_kernel_dim=4,
        rms_norm_eps=1e-5,
        num_hidden_layers=1,
    )
    other = qwen.Qwen3NextGatedDeltaNet(config, 0)
    q, k, v, z, b, a = layer.project.weight.split([64, 64, 64, 64, 4, 4])
    with torch.no_grad():
        other.in_proj_qkvz.weight.copy_(
            torch.cat([y.unflatten(0, (4, 16)) for y in (q, k, v, z)], dim=1).flatten(0, 1)
        )
        other.in_proj_ba.weight.copy_(torch.stack([b, a], dim=1).flatten(0, 1))
        other.conv1d.weight.copy_(layer.convolution.weight.mT[:, None])
        other.A_log.copy_(layer.log_rate)
        other.dt_bias.copy_(layer.step_bias)
        other.norm.weight.copy_(layer.weight)
        other.out_proj.weight.copy_(layer.out.weight)
    return other


def recurrence(layer: GatedDeltaNet, x: Tensor) -> Tensor:
    """Equation 10 of the paper with whole matrices, step by step, and its layer around it."""
    qkv, gate, beta, step = layer.project(x).split([192, 64, 4, 4], dim=2)
    alpha = torch.exp(-layer.log_rate.exp() * F.softplus(step + layer.step_bias))
    state, read = x.new_zeros(len(x), 4, 16, 16), []
    for t in range(x.shape[1]):
        window = [layer.convolution.weight[3 - lag] * qkv[:, t - lag] for lag in range(min(t + 1, 4))]
        q, k, v = F.silu(torch.stack(window).sum(0)).unflatten(1, (3, 4, 16)).unbind(1)
        q, k = (y / (y.square().sum(-1, keepdim=True) + 1e-6).sqrt() for y in (q, k))
        rate = beta[:, t].sigmoid()[..., None, None]
        erased = torch.eye(16).to(x) - rate * k[..., :, None] * k[..., None, :]
        state = alpha[:, t, :, None, None] * state @ erased + rate * v[..., None] * k[..., None, :]
        out = (state @ q[..., None])[..., 0] / 4
        out = layer.weight * out / (out.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        read.append(out.flatten(1) * F.silu(gate[:, t]))
    return layer.out(torch.stack(read, dim=1))


@pytest.mark.parametrize("steps", [1, 40, 64, 150])
def test_it_is_the_recurrence_of_the_paper(steps: int) -> None:
    layer = mixers.drawn(GatedDeltaNet(64)).double()
    x = torch.randn(3, steps, 64).double()
    torch.testing.assert_close(layer(x), recurrence(layer, x), rtol=0, atol=1e-9)


@pytest.mark.parametrize("steps", [5, 40, 150])
def test_it_is_the_layer_of_another_library(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of transformers, in its own torch operations: where it finds them it takes kernels for GPUs."""
    for name in ("torch_chunk_gated_delta_rule", "causal_conv1d_fn"):
        monkeypatch.setattr(qwen, name, inspect.unwrap(getattr(qwen, name)))
    layer, x = mixers.drawn(GatedDeltaNet(64)), torch.randn(3, steps, 64)
    torch.testing.assert_close(layer(x), published(layer)(x), rtol=0, atol=1e-4)


def test_it_begins_with_steps_as_mamba_2_does() -> None:
    layer = GatedDeltaNet(64)
    step = F.softplus(layer.step_bias)
    assert ((step > 0.0009) & (step < 0.11)).all()
    assert (layer.log_rate.exp() <= 16).all()
