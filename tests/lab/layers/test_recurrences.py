"""Every published layer computes the recurrence of its paper, with all gradients, at any length."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from csprop_lab.layers import layer
from csprop_lab.layers.mlstm import MLSTM
from csprop_lab.layers.parts import ShortConvolution
from csprop_lab.layers.pd_ssm import PDSSM
from csprop_lab.layers.slstm import SLSTM
from tests.lab.layers import recurrences
from tests.lab.layers.mixers import check_same, perturb

Recurrence = Callable[[Any, Tensor], Tensor]
CASES: dict[str, tuple[Recurrence, int]] = {
    "transformer": (recurrences.attention, 16),
    "s4d": (recurrences.s4d, 8),
    "s5": (recurrences.s5, 16),
    "h3": (recurrences.h3, 8),
    "mamba": (recurrences.mamba, 32),
    "mamba-2": (recurrences.mamba2, 32),
    "retnet": (recurrences.retention, 64),
    "linear-attention": (recurrences.linear_attention, 64),
    "fast-weights": (recurrences.fast_weights, 64),
    "gated-deltanet": (recurrences.gated_deltanet, 64),
    "gated-deltanet-negative": (recurrences.gated_deltanet, 64),
    "deltaproduct": (recurrences.gated_deltanet, 64),
    "megalodon": (recurrences.megalodon, 32),
    "rwkv-7": (recurrences.rwkv7, 64),
    "slstm": (recurrences.slstm, 16),
    "mlstm": (recurrences.mlstm, 16),
    "pd-ssm": (recurrences.pd_ssm, 6),
    "ssm": (recurrences.selective_ssm, 3),
    "ssm-negative": (recurrences.selective_ssm, 3),
}
"""The recurrence, and the width of the features."""
CLOSE = {"linear-attention": 1e-4, "mlstm": 1e-4}
"""Positions are in float32; the code of the mLSTM adds 1e-6 to a denominator, unlike its paper."""
SMALL = {"pd-ssm": partial(PDSSM, states=5, matrices=3)}


def make(name: str) -> nn.Module:
    return perturb(SMALL.get(name, layer(name))(CASES[name][1]), 0.3).double()


@pytest.mark.parametrize("steps", [1, 5, 40, 64, 65, 200])
@pytest.mark.parametrize("name", CASES)
def test_a_layer_is_the_recurrence_of_its_paper(name: str, steps: int) -> None:
    (recurrence, width), made = CASES[name], make(name)
    x = torch.randn(2, steps, width, dtype=torch.float64)
    check_same(made, partial(recurrence, made), x, CLOSE.get(name, 1e-10))


@pytest.mark.parametrize(("name", "close"), [("s4d", 1e-4), ("rwkv-7", 1e-4), ("mlstm", 1e-3)])
def test_single_precision_is_enough(name: str, close: float) -> None:
    (recurrence, width), made = CASES[name], make(name)
    x = torch.randn(3, 150, width, dtype=torch.float64)
    with torch.no_grad():
        expected = recurrence(made, x)
        torch.testing.assert_close(made.float()(x.float()).double(), expected, rtol=close, atol=close)


@pytest.mark.parametrize(("kind", "size"), [(MLSTM, 100), (SLSTM, 10_000), (PDSSM, 1_000)])
def test_inputs_of_any_size_have_finite_gradients(
    kind: Callable[[int], nn.Module], size: float
) -> None:
    made = kind(64)
    if isinstance(made, MLSTM):
        nn.init.normal_(made.gates.weight, std=3.0)
    x = (size * torch.randn(1, 130, 64)).requires_grad_()
    made(x).square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("steps", [1, 3, 4, 9])
def test_the_short_convolution_is_torch_s(steps: int) -> None:
    ours, theirs = ShortConvolution(5).double(), nn.Conv1d(5, 5, 4, groups=5, padding=3).double()
    theirs.load_state_dict({"weight": ours.weight.T[:, None], "bias": ours.bias})
    x = torch.randn(2, steps, 5, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x.mT)[:, :, :steps].mT)


@pytest.mark.parametrize(
    ("name", "part", "close"), [("gated-deltanet", "log_rate", 1e-3), ("rwkv-7", "decay_bias", 1e-4)]
)
def test_the_least_decays_are_right_in_single_precision(name: str, part: str, close: float) -> None:
    """Also where the product of a chunk's decays is far below the least float."""
    (recurrence, width), made = CASES[name], make(name)
    made.get_parameter(part).data += 4
    x = torch.randn(3, 150, width, dtype=torch.float64)
    expected = recurrence(made, x)
    outputs = made.float()(x.float())
    torch.testing.assert_close(outputs.double(), expected, rtol=close, atol=close)
    for gradient in torch.autograd.grad(outputs.sum(), list(made.parameters())):
        assert gradient.isfinite().all()
