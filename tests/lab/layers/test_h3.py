"""H3 is the two state spaces of its paper, a step at a time."""

import pytest
import torch
from torch import Tensor

from csprop_lab.layers.h3 import H3
from tests.helpers import mixers

WIDTH = 8


@pytest.fixture
def layer() -> H3:
    torch.manual_seed(0)
    return H3(WIDTH)


def looped(layer: H3, u: Tensor) -> Tensor:
    """The shift matrix and the diagonal one applied to their states at every step."""
    query, key, value = (u @ layer.project.weight.T + layer.project.bias).chunk(3, dim=2)
    ssm = layer.ssm
    a = torch.complex(-ssm.log_decay.exp(), ssm.frequency)
    factor = (a * ssm.log_step.exp()[:, None]).exp()
    c = torch.complex(ssm.c[..., 0], ssm.c[..., 1])
    shift = torch.diag(torch.ones(63), -1).to(u.dtype)
    first = torch.eye(64)[0].to(u.dtype)
    recent = u.new_zeros(len(u), WIDTH, 64)
    x, outputs = torch.zeros(len(u), *a.shape, dtype=a.dtype), []
    for t in range(u.shape[1]):
        recent = recent @ shift.T + first * key[:, t, :, None]
        shifted = (layer.shift * recent).sum(dim=2) + layer.shift_skip * key[:, t]
        product = shifted * value[:, t]
        x = factor * x + (factor - 1) / a * product[:, :, None]
        remembered = 2 * (c * x).real.sum(dim=2) + ssm.skip * product
        outputs.append((query[:, t] * remembered) @ layer.out.weight.T + layer.out.bias)
    return torch.stack(outputs, dim=1)


@pytest.mark.parametrize("steps", [1, 40, 64, 65, 150])
def test_it_is_the_recurrence(layer: H3, steps: int) -> None:
    x = torch.randn(2, steps, WIDTH, generator=torch.Generator().manual_seed(1)).double()
    mixers.check_same(layer.double(), lambda x: looped(layer, x), x, 1e-8)
