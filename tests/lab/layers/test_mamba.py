"""Mamba is the layer of the transformers library, and the recurrence of its paper."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import MambaConfig  # pyright: ignore
from transformers.models.mamba.modeling_mamba import MambaMixer  # pyright: ignore

from csprop_lab.layers.mamba import Mamba

WIDTH = 32


@pytest.fixture
def layer() -> Mamba:
    torch.manual_seed(0)
    made = Mamba(WIDTH)
    with torch.no_grad():
        made.log_a.add_(0.3 * torch.randn_like(made.log_a))
        made.skip.add_(torch.randn_like(made.skip))
    return made


def library(layer: Mamba) -> MambaMixer:
    """The library's layer with the same weights."""
    other = MambaMixer(MambaConfig(hidden_size=WIDTH, state_size=16, conv_kernel=4, expand=2), 0)
    other.load_state_dict(
        {
            "in_proj.weight": layer.enter.weight,
            "conv1d.weight": layer.convolution.weight.T[:, None],
            "conv1d.bias": layer.convolution.bias,
            "x_proj.weight": layer.select.weight,
            "dt_proj.weight": layer.step.weight,
            "dt_proj.bias": layer.step.bias,
            "A_log": layer.log_a.T,
            "D": layer.skip,
            "out_proj.weight": layer.out.weight,
        }
    )
    return other.eval()


def looped(layer: Mamba, u: Tensor) -> Tensor:
    """The paper's recurrence, a step at a time."""
    x, z = (u @ layer.enter.weight.T).chunk(2, dim=2)
    h, a, taps = u.new_zeros(len(u), 2 * WIDTH, 16), -layer.log_a.exp().T, layer.convolution.weight
    outputs = []
    for t in range(u.shape[1]):
        past = sum(taps[3 - back] * x[:, t - back] for back in range(4) if t >= back)
        x_t = F.silu(past + layer.convolution.bias)
        delta, b, c = (x_t @ layer.select.weight.T).split([WIDTH // 16, 16, 16], dim=1)
        step = F.softplus(delta @ layer.step.weight.T + layer.step.bias)
        h = (step[:, :, None] * a).exp() * h + (step * x_t)[:, :, None] * b[:, None]
        y = (h * c[:, None]).sum(2) + layer.skip * x_t
        outputs.append((y * F.silu(z[:, t])) @ layer.out.weight.T)
    return torch.stack(outputs, dim=1)


@pytest.mark.parametrize("steps", [1, 8, 21])
def test_it_is_the_library_s_layer(layer: Mamba, steps: int) -> None:
    x = torch.randn(3, steps, WIDTH, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(layer(x), library(layer)(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("steps", [1, 8, 21, 150])
def test_it_is_the_recurrence(layer: Mamba, steps: int) -> None:
    x = torch.randn(3, steps, WIDTH, generator=torch.Generator().manual_seed(1)).double()
    torch.testing.assert_close(layer.double()(x), looped(layer, x), rtol=1e-9, atol=1e-10)


def test_the_first_steps_and_decays_are_the_published_ones() -> None:
    layer = Mamba(64)
    steps = F.softplus(layer.step.bias)
    assert 0.0009 < steps.min() < 0.005
    assert 0.02 < steps.max() < 0.11
    torch.testing.assert_close(layer.log_a.exp()[:, 5], torch.arange(1.0, 17))
