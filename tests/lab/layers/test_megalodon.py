"""Megalodon is the equations of its paper, a step at a time."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from csprop_lab.layers.megalodon import CEMA, Megalodon, TimestepNorm
from tests.helpers import mixers

WIDTH, HEAD = 32, 8


@pytest.fixture
def layer() -> Megalodon:
    torch.manual_seed(0)
    made = Megalodon(WIDTH)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return made


def averaged(cema: CEMA, x: Tensor) -> Tensor:
    """The damped recurrence of every average of every channel."""
    alpha, delta = cema.alpha.sigmoid(), cema.delta.sigmoid()
    k = torch.arange(1, 17, dtype=x.dtype)
    turn = torch.exp(1j * (2 * math.pi * k / 16 * cema.theta.sigmoid()))
    eta = torch.complex(cema.eta[..., 0], cema.eta[..., 1]) / 4
    h, outputs = torch.zeros(len(x), *alpha.shape, dtype=turn.dtype), []
    for t in range(x.shape[1]):
        h = alpha * turn * x[:, t, :, None] + (1 - alpha * delta) * turn * h
        outputs.append((eta * h).sum(dim=2).real + cema.omega * x[:, t])
    return torch.stack(outputs, dim=1)


def normalised(norm: TimestepNorm, x: Tensor) -> Tensor:
    """Every group by the mean and the variance of all its numbers up to the step."""
    outputs = []
    for t in range(x.shape[1]):
        past = x[:, : t + 1].unflatten(2, (4, -1))
        mean, variance = past.mean(dim=(1, 3)), past.var(dim=(1, 3), correction=0)
        now = (past[:, -1] - mean[..., None]) / (variance + 1e-5).sqrt()[..., None]
        outputs.append(now.flatten(1) * norm.weight + norm.bias)
    return torch.stack(outputs, dim=1)


def turned(x: Tensor, position: int) -> Tensor:
    """Pairs of neighbours as complex numbers, turned by the position at their rates."""
    rates = 10_000 ** (-torch.arange(0, HEAD, 2, dtype=x.dtype) / HEAD)
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.exp(1j * position * rates)).flatten(-2)


def rms(x: Tensor) -> Tensor:
    return x / (x.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()


def looped(layer: Megalodon, x: Tensor) -> Tensor:
    """One query at a time, over the keys of its chunk so far."""
    x = normalised(layer.timestep_norm, x)
    mixed = rms(averaged(layer.average, x)) * layer.norm.weight
    shared, gate, candidate = layer.project(mixed).split([WIDTH, 2 * WIDTH, WIDTH], dim=2)
    shared = rms(shared.unflatten(2, (4, HEAD))).flatten(2)
    (q_scale, k_scale), (q_shift, k_shift) = layer.scales, layer.shifts
    query = (shared * q_scale + q_shift).unflatten(2, (4, HEAD))
    key = (shared * k_scale + k_shift).unflatten(2, (4, HEAD))
    value = F.silu(layer.value(x)).unflatten(2, (4, 2 * HEAD))
    outputs = []
    for t in range(x.shape[1]):
        chunk = range(t - t % 64, t + 1)
        keys = torch.stack([turned(key[:, s], s % 64) for s in chunk], dim=1)
        scores = torch.einsum("bhz,bshz->bhs", turned(query[:, t], t % 64), keys).softmax(dim=2)
        read = torch.einsum("bhs,bshv->bhv", scores, value[:, chunk.start : chunk.stop]).flatten(1)
        outputs.append(candidate[:, t] + (read * F.silu(gate[:, t])) @ layer.out.weight.T)
    return torch.stack(outputs, dim=1)


@pytest.mark.parametrize("steps", [1, 40, 65, 150])
def test_it_is_the_paper_s_layer(layer: Megalodon, steps: int) -> None:
    x = torch.randn(2, steps, WIDTH, generator=torch.Generator().manual_seed(1)).double()
    mixers.check_same(layer.double(), lambda x: looped(layer, x), x, 1e-8)


def test_attention_ends_with_the_chunk_and_the_average_does_not(layer: Megalodon) -> None:
    x = torch.randn(1, 66, WIDTH, generator=torch.Generator().manual_seed(1)).double()
    x[:, 0] *= 3
    layer = layer.double()
    whole = layer(x)
    assert (whole - layer(x.clone().index_fill_(1, torch.tensor([0]), 0.0))).abs()[:, 65].max() > 1e-6
    with torch.no_grad():
        layer.average.eta.zero_()
        layer.timestep_norm.weight.zero_()
        layer.timestep_norm.bias.normal_()
    torch.testing.assert_close(layer(x)[:, 64], layer(x)[:, 0])
