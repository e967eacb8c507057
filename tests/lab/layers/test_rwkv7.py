import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from csprop_lab.layers.rwkv7 import RWKV7
from tests.helpers import mixers


def recurrence(layer: RWKV7, x: Tensor) -> Tensor:
    """The paper's time mixing (section 4 and its appendix), step by step with row vectors."""
    state, last, read = x.new_zeros(len(x), 4, 16, 16), torch.zeros_like(x[:, 0]), []
    for now in x.unbind(1):
        r, k, v, w, a, g = (torch.lerp(now, last, mu.expand_as(now)) for mu in layer.shift)
        r, k, v = (y @ weight for y, weight in zip((r, k, v), layer.project, strict=True))
        d = layer.decay_bias + torch.tanh(w @ layer.down[0]) @ layer.up[0]
        w = torch.exp(-math.exp(-0.5) / (1 + torch.exp(-d)))
        a = 1 / (1 + torch.exp(-(layer.rate_bias + (a @ layer.down[1]) @ layer.up[1])))
        g = torch.sigmoid(g @ layer.down[2]) @ layer.up[2]
        kappa = k * layer.removal
        k = k * torch.lerp(torch.ones_like(a), a, layer.replacement.expand_as(a))
        r, w, k, v, a, kappa = (y.unflatten(1, (4, 1, 16)) for y in (r, w, k, v, a, kappa))
        kappa = kappa / kappa.norm(dim=-1, keepdim=True)
        transition = torch.diag_embed(w[..., 0, :]) - kappa.mT @ (a * kappa)
        state = state @ transition + v.mT @ k
        out = F.group_norm((r @ state.mT).flatten(1), 4, layer.norm.weight, layer.norm.bias, 64e-5)
        bonus = (r * layer.bonus.view(4, 1, 16) * k).sum(-1, keepdim=True) * v
        read.append(layer.out(g * (out + bonus.flatten(1))))
        last = now
    return torch.stack(read, dim=1)


@pytest.mark.parametrize("steps", [1, 40, 64, 150])
def test_it_is_the_recurrence_of_the_paper(steps: int) -> None:
    layer, x = mixers.drawn(RWKV7(64)).double(), torch.randn(3, steps, 64).double()
    torch.testing.assert_close(layer(x), recurrence(layer, x), rtol=0, atol=1e-8)


def test_single_precision_is_enough() -> None:
    layer, x = mixers.drawn(RWKV7(64)), torch.randn(3, 150, 64)
    expected = recurrence(layer, x)
    torch.testing.assert_close(layer(x), expected, rtol=1e-4, atol=1e-4)


def test_it_begins_as_published() -> None:
    """The output is 0 at first, and the decays cover what the authors' code gives a first layer."""
    layer = RWKV7(64)
    assert (layer(torch.randn(2, 10, 64)) == 0).all()
    place = torch.arange(64)
    torch.testing.assert_close(layer.shift[3, 0].detach(), 1 - (place / 64) ** 0.9)
    torch.testing.assert_close(layer.shift[1, 0].detach(), 1 - (place / 64) ** 0.7)
    assert layer.project[1].abs().max() <= 0.05 / 8 < 0.4 / 8 < layer.project[0].abs().max() <= 0.5 / 8
    zigzag = ((place % 16) - 7.5) / 7.5
    decay = -6 + 6 * place / 63 + 0.5 + 2.5 * zigzag * zigzag.abs()
    torch.testing.assert_close(layer.decay_bias.detach(), decay, rtol=0, atol=1e-5)
