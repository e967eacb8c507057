"""Mamba-2 is the layer of the transformers library, and the recurrence of its paper."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import Mamba2Config  # pyright: ignore
from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer  # pyright: ignore

from csprop_lab.layers.mamba2 import Mamba2

WIDTH, STATE = 32, 32


@pytest.fixture
def layer() -> Mamba2:
    torch.manual_seed(0)
    made = Mamba2(WIDTH)
    with torch.no_grad():
        made.skip.add_(torch.randn_like(made.skip))
        made.norm.weight.add_(torch.randn_like(made.norm.weight))
    return made


def library(layer: Mamba2) -> Mamba2Mixer:
    """The library's layer with the same weights."""
    config = Mamba2Config(
        hidden_size=WIDTH, num_heads=4, head_dim=16, state_size=STATE, n_groups=1, chunk_size=16
    )
    other = Mamba2Mixer(config, 0)
    other.load_state_dict(
        {
            "in_proj.weight": layer.enter.weight,
            "conv1d.weight": layer.convolution.weight.T[:, None],
            "conv1d.bias": layer.convolution.bias,
            "dt_bias": layer.step_bias,
            "A_log": layer.log_a,
            "D": layer.skip,
            "norm.weight": layer.norm.weight,
            "out_proj.weight": layer.out.weight,
        }
    )
    return other.eval()


def looped(layer: Mamba2, u: Tensor) -> Tensor:
    """The paper's recurrence, a step at a time."""
    z, entering, delta = (u @ layer.enter.weight.T).split([64, 64 + 2 * STATE, 4], dim=2)
    h, taps, outputs = u.new_zeros(len(u), 4, STATE, 16), layer.convolution.weight, []
    for t in range(u.shape[1]):
        past = sum(taps[3 - back] * entering[:, t - back] for back in range(4) if t >= back)
        x, b, c = F.silu(past + layer.convolution.bias).split([64, STATE, STATE], dim=1)
        x, step = x.view(-1, 4, 16), F.softplus(delta[:, t] + layer.step_bias)
        decay = (-step * layer.log_a.exp()).exp()
        h = decay[:, :, None, None] * h + torch.einsum("bn,bhp,bh->bhnp", b, x, step)
        y = torch.einsum("bn,bhnp->bhp", c, h) + layer.skip[:, None] * x
        y = y.flatten(1) * F.silu(z[:, t])
        y = y / (y.square().mean(dim=1, keepdim=True) + 1e-5).sqrt() * layer.norm.weight
        outputs.append(y @ layer.out.weight.T)
    return torch.stack(outputs, dim=1)


@pytest.mark.parametrize("steps", [1, 40, 64, 150])
def test_it_is_the_library_s_layer(layer: Mamba2, steps: int) -> None:
    x = torch.randn(3, steps, WIDTH, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(layer(x), library(layer)(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("steps", [1, 40, 64, 150])
def test_it_is_the_recurrence(layer: Mamba2, steps: int) -> None:
    x = torch.randn(3, steps, WIDTH, generator=torch.Generator().manual_seed(1)).double()
    torch.testing.assert_close(layer.double()(x), looped(layer, x), rtol=1e-9, atol=1e-10)


def test_the_first_steps_and_decays_are_the_published_ones() -> None:
    layer = Mamba2(512)
    steps, decays = F.softplus(layer.step_bias), layer.log_a.exp()
    assert 0.0009 < steps.min() < 0.005
    assert 0.02 < steps.max() < 0.11
    assert 1 <= decays.min() < 3
    assert 14 < decays.max() <= 16
