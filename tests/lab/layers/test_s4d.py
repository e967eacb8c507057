"""S4D is the recurrence of its paper, with all of its states."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from csprop_lab.layers.diagonal import DiagonalSSM
from csprop_lab.layers.s4d import S4D
from tests.helpers import mixers

WIDTH = 8


@pytest.fixture
def layer() -> S4D:
    torch.manual_seed(0)
    made = S4D(WIDTH)
    with torch.no_grad():
        for part in (made.ssm.log_decay, made.ssm.frequency):
            part += 0.3 * torch.randn_like(part)
    return made


def looped(ssm: DiagonalSSM, u: Tensor) -> Tensor:
    """The state space with both states of every pair, held for a step of Δ, a step at a time."""
    a = torch.complex(-ssm.log_decay.exp(), ssm.frequency)
    c = torch.complex(ssm.c[..., 0], ssm.c[..., 1])
    a, c = torch.cat([a, a.conj()], dim=1), torch.cat([c, c.conj()], dim=1)
    factor = (a * ssm.log_step.exp()[:, None]).exp()
    x, outputs = torch.zeros(len(u), *a.shape, dtype=a.dtype), []
    for t in range(u.shape[1]):
        x = factor * x + (factor - 1) / a * u[:, t, :, None]
        y = (c * x).sum(dim=2)
        assert y.imag.abs().max() < 1e-10
        outputs.append(y.real + ssm.skip * u[:, t])
    return torch.stack(outputs, dim=1)


@pytest.mark.parametrize("steps", [1, 40, 64, 65, 200])
def test_it_is_the_recurrence(layer: S4D, steps: int) -> None:
    x = torch.randn(3, steps, WIDTH, generator=torch.Generator().manual_seed(1)).double()
    kept, gate = layer.double().out(F.gelu(looped(layer.ssm, x))).chunk(2, dim=2)
    expected = kept * gate.sigmoid()
    torch.testing.assert_close(layer(x), expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(layer.float()(x.float()), expected.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("steps", [40, 150])
def test_gradients_are_those_of_the_recurrence(layer: S4D, steps: int) -> None:
    x = torch.randn(2, steps, WIDTH, generator=torch.Generator().manual_seed(1)).double()
    mixers.check_same(layer.ssm.double(), lambda x: looped(layer.ssm, x), x, 1e-8)


def test_it_begins_as_s4d_lin() -> None:
    ssm = S4D(256).ssm
    assert ssm.log_decay.shape == (256, 32)
    torch.testing.assert_close(ssm.log_decay.exp(), torch.full((256, 32), 0.5))
    torch.testing.assert_close(ssm.frequency[7], math.pi * torch.arange(32.0))
    assert 0.001 <= ssm.log_step.exp().min() < 0.0015
    assert 0.08 < ssm.log_step.exp().max() <= 0.1
