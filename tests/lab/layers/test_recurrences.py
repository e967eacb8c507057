"""Every published layer computes the recurrence of its paper, with all gradients, at any length."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from csprop_lab.layers import layer
from csprop_lab.layers.delta_rule import delta_rule
from csprop_lab.layers.mlstm import MLSTM
from csprop_lab.layers.pd_ssm import PDSSM
from csprop_lab.layers.short import ShortConvolution
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


def step_delta_rule(
    q: Tensor, k: Tensor, v: Tensor, a: Tensor, log_w: Tensor, b: Tensor | None = None
) -> Tensor:
    """S_t = S_{t−1} diag(w_t) (I + a_t b_tᵀ) + v_t k_tᵀ with whole matrices."""
    b = k if b is None else b
    state, read = q.new_zeros(*q.shape[:2], v.shape[3], q.shape[3]), []
    for t in range(q.shape[2]):
        decay = torch.diag_embed(log_w[:, :, t].exp().expand(k[:, :, t].shape))
        change = torch.eye(q.shape[3]).to(q) + a[:, :, t, :, None] * b[:, :, t, None]
        state = state @ decay @ change + v[:, :, t, :, None] * k[:, :, t, None]
        read.append(state @ q[:, :, t, :, None])
    return torch.cat(read, dim=3).mT


def draw_rule(steps: int, decays: int) -> list[Tensor]:
    """Draw matrices with norms of at most 1; with several decays also keys to write, as RWKV-7 has."""
    q, v = (torch.randn(2, 3, steps, size, dtype=torch.float64) for size in (8, 5))
    k = nn.functional.normalize(torch.randn_like(q), dim=3)
    beta = 2 * torch.rand_like(k[..., :1])
    log_w = -torch.rand(2, 3, steps, decays, dtype=torch.float64)
    return [q, k, v, -beta * k, log_w] + ([torch.rand_like(k) * k] if decays > 1 else [])


@pytest.mark.parametrize("steps", [1, 40, 64, 150])
@pytest.mark.parametrize("decays", [1, 8])
def test_chunks_of_the_delta_rule_are_its_steps(steps: int, decays: int) -> None:
    inputs = draw_rule(steps, decays)
    torch.testing.assert_close(delta_rule(*inputs), step_delta_rule(*inputs), rtol=0, atol=1e-9)


@pytest.mark.parametrize(("decays", "log_w", "close"), [(1, -300.0, 1e-3), (8, -1.0, 1e-4)])
def test_small_decays_are_right_in_single_precision(decays: int, log_w: float, close: float) -> None:
    """Also where the product of a chunk's decays is far below the least float."""
    inputs = draw_rule(150, decays)
    inputs[4][:, :, :: 7 if decays == 1 else 1] = log_w
    inputs = [x.float().requires_grad_() for x in inputs]
    outputs = delta_rule(*inputs)
    torch.testing.assert_close(outputs, step_delta_rule(*inputs), rtol=0, atol=close)
    for gradient in torch.autograd.grad(outputs.sum(), inputs):
        assert gradient.isfinite().all()
