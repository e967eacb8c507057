"""The sLSTM is its recurrence."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from csprop_lab.layers.slstm import SLSTM
from tests.helpers import mixers


def made(width: int = 16) -> SLSTM:
    """In float64, with heads whose memory is mixed, as it is after training."""
    torch.manual_seed(0)
    layer = SLSTM(width).double()
    for parameter in (layer.recurrent, layer.bias, layer.scale, layer.weight):
        torch.nn.init.normal_(parameter)
    return layer


def by_loop(layer: SLSTM, x: Tensor) -> Tensor:
    """One sequence (T, width), without a stabiliser: the paper's equations as they stand."""
    width = x.shape[1]
    weights, mixing = (
        [torch.block_diag(*part[:, gate]) for gate in range(4)]
        for part in (layer.weight, layer.recurrent)
    )
    biases = [layer.bias[:, gate].flatten() for gate in range(4)]
    seen, (c, n, h), rows = x.new_zeros(4, width), x.new_zeros(3, width), []
    for entered in x:
        seen = torch.cat([seen[1:], entered[None]])
        recent = F.silu((layer.conv.weight * seen).sum(0) + layer.conv.bias)
        i, f, z, o = (
            weight @ source + mix @ h + bias
            for weight, mix, bias, source in zip(
                weights, mixing, biases, (recent, recent, entered, entered), strict=True
            )
        )
        c = f.sigmoid() * c + i.exp() * z.tanh()
        n = f.sigmoid() * n + i.exp()
        h = o.sigmoid() * c / n
        heads = h.view(4, -1)
        centred = heads - heads.mean(1, keepdim=True)
        normed = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
        rows.append(normed.flatten() * layer.scale)
    return torch.stack(rows)


@pytest.mark.parametrize("steps", [1, 2, 40, 130])
def test_values_and_gradients_are_those_of_the_recurrence(steps: int) -> None:
    layer, x = made(), torch.randn(3, steps, 16, dtype=torch.float64)
    mixers.check_same(layer, lambda x: torch.stack([by_loop(layer, row) for row in x]), x, 1e-7)


def test_gates_of_any_size_have_finite_gradients() -> None:
    torch.manual_seed(3)
    layer = SLSTM(64)
    x = (10_000 * torch.randn(1, 130, 64)).requires_grad_()
    layer(x).square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
