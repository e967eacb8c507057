"""Half precision where numbers are large: long sequences, growing states, counts."""

import math
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from torch import Generator, Tensor

from csprop import CSP, CSPConfig, Paper, scan, tasks
from csprop.cells.paper import PaperBlock
from csprop.ops.scan import HALF_LIMIT
from csprop.training.presets import PRESETS, preset

HALVES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
NEAR = {torch.float16: 0.02, torch.bfloat16: 0.15}
"""Some twenty times the precision of a number, for errors that add up through layers."""
MODELS = [*((name, "parity") for name in PRESETS), ("rotor", "even-pairs"), ("rotor", "group-A5")]
EVERY = pytest.mark.parametrize(("name", "task"), [*MODELS, ("rotor", "group-S5")])


def model(name: str, task: str, **changes: Any) -> CSP:
    layers = replace(preset(name, tasks.get(task)).model, width=8, **changes)
    return CSP(CSPConfig(**vars(layers), vocab_size=3, num_classes=4), Generator().manual_seed(1))


def tokens(steps: int) -> Tensor:
    return torch.randint(3, (2, steps), generator=Generator().manual_seed(2))


def backward(scores: Tensor, net: torch.nn.Module) -> None:
    """Gradients of all parameters that have one are finite, and some are not 0."""
    scores.float().logsumexp(dim=2).mean().backward()
    gradients = [each.grad for each in net.parameters() if each.grad is not None]
    assert all(each.isfinite().all() for each in gradients)
    assert any(each.any() for each in gradients)


@HALVES
@EVERY
def test_long_sequences_stay_finite(name: str, task: str, dtype: torch.dtype) -> None:
    net = model(name, task).to(dtype)
    scores = net(tokens(3000))
    assert scores.isfinite().all()
    backward(scores, net)


@HALVES
@pytest.mark.parametrize("norm", ["complex", "layer", "none"])
@pytest.mark.parametrize("decoder", ["cos_sin", "phase"])
def test_states_that_grow_stay_finite(norm: str, decoder: str, dtype: torch.dtype) -> None:
    """α well above 1 in every layer: states of 2^60 in float32, beyond the numbers of float16."""
    net = model("paper", "parity", cell=Paper(norm=norm), decoder=decoder)  # pyright: ignore
    for block in net.layers:
        torch.nn.init.constant_(cast(PaperBlock, block).gate.bias, 1.0)
    want = net(tokens(400))[:, -1]
    scores = net.to(dtype)(tokens(400))
    assert scores.isfinite().all()
    if norm == "complex":
        torch.testing.assert_close(scores[:, -1].float(), want, rtol=NEAR[dtype], atol=4 * NEAR[dtype])
    backward(scores, net)


@HALVES
def test_counts_are_those_of_float32(dtype: torch.dtype) -> None:
    """Neither type holds 2,500 and its neighbours."""
    net = model("counter", "parenthesis")
    row = torch.ones(1, 2500, dtype=torch.int64)
    _, want = net(row, return_state=True)
    _, got = net.to(dtype)(row, return_state=True)
    assert want[:, 0, 0].abs().max() >= 2500
    assert torch.equal(got[:, 0], want[:, 0])


def test_states_beyond_float16_keep_their_direction() -> None:
    a = torch.full((1, 60, 1, 1), 1.5, dtype=torch.float16)
    u = torch.zeros(1, 60, 2, 1, dtype=torch.float16)
    u[:, 0, 0], u[:, 0, 1] = 1.0, 2.0
    h, last = scan(a, u.requires_grad_())
    assert h.isfinite().all()
    re, im = h.detach()[0, -1, :, 0].tolist()
    assert math.hypot(re, im) == pytest.approx(HALF_LIMIT, rel=1e-3)
    assert math.atan2(im, re) == pytest.approx(math.atan2(2, 1), rel=1e-3)
    assert last[0, 0, 0].item() == pytest.approx(1.5**59, rel=1e-5)
    (h / HALF_LIMIT).sum().backward()
    assert u.grad is not None
    assert u.grad.isfinite().all()
