import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from csprop_lab.layers.retnet import Retention
from tests.helpers import mixers

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", DeprecationWarning)
    from yet_another_retnet.retention import MultiScaleRetention  # pyright: ignore


def published(layer: Retention) -> MultiScaleRetention:
    """yet-another-retnet's layer with the same weights; it takes its decays from another formula."""
    other = MultiScaleRetention(64, 4, bias=False, dtype=torch.float64)
    parts = (other.q_proj, other.k_proj, other.v_proj, other.g_proj)
    with torch.no_grad():
        for part, weight in zip(parts, layer.project.weight.chunk(4), strict=True):
            part.weight.copy_(weight)
        other.out_proj.weight.copy_(layer.out.weight)
    return other


def recurrence(layer: Retention, x: Tensor) -> Tensor:
    """Equations 3, 6 and 8 of the paper in complex numbers, step by step."""
    query, key, value, gate = layer.project(x).chunk(4, dim=2)
    query, key, value = (mixers.heads(y) for y in (query, key, value))
    rates = 10_000.0 ** -(torch.arange(8, dtype=torch.float64) / 7)
    decay = torch.tensor([1 - 1 / 32, 1 - 1 / 64, 1 - 1 / 128, 1 - 1 / 256], dtype=torch.float64)
    state = torch.zeros(len(x), 4, 8, 16, dtype=torch.complex128)
    read = []
    for n, (q, k, v) in enumerate(zip(query.unbind(1), key.unbind(1), value.unbind(1), strict=True)):
        turn = torch.polar(torch.ones(8, dtype=torch.float64), n * rates)
        q, k = (torch.view_as_complex(y.unflatten(-1, (8, 2)).contiguous()) * turn for y in (q, k))
        state = decay[:, None, None] * state + torch.einsum("bhk,bhv->bhkv", k.conj(), v + 0j)
        out = torch.einsum("bhk,bhkv->bhv", q, state).real / 4
        variance, mean = torch.var_mean(out, dim=-1, correction=0, keepdim=True)
        read.append(((out - mean) / (variance + 1e-6).sqrt()).flatten(1))
    return layer.out(torch.stack(read, dim=1) * F.silu(gate))


@pytest.mark.parametrize("steps", [1, 40, 64, 150])
def test_it_is_the_recurrence_of_the_paper(steps: int) -> None:
    layer, x = Retention(64).double(), torch.randn(3, steps, 64).double()
    torch.testing.assert_close(layer(x), recurrence(layer, x), rtol=0, atol=1e-8)


@pytest.mark.parametrize("steps", [40, 150])
def test_it_is_the_layer_of_another_library(steps: int) -> None:
    layer, x = Retention(64).double(), torch.randn(3, steps, 64).double()
    expected = published(layer).forward_parallel(x, x, x)[0]
    layer.decay = 1 - 0.5 ** torch.linspace(5, 9, 4, dtype=torch.float64)
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-9)
