"""Half precision: float16 and bfloat16, as the type of a model and under autocast."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from csprop import CSP, CSPConfig, Paper, scan, tasks
from csprop.cells.options import Shape
from csprop.cells.rotor import RotorBlock
from csprop.cells.switch import SwitchBlock
from csprop.ops.planes import HALF_LIMIT
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


def decisions(net: CSP) -> list[Tensor]:
    """What the gates that are rounded to 0 or 1 will decide; at its threshold one may go either way."""
    found: list[Tensor] = []
    for block in net.layers:
        if isinstance(block, RotorBlock | SwitchBlock):
            block.gate.register_forward_hook(lambda gate, given, delta: found.append(delta > 0))
    return found


def agreeing(these: Tensor, those: Tensor) -> int:
    """How many steps pass before two such decisions differ."""
    same = (these == those).all(dim=2).all(dim=0)
    return 24 if same.all() else int(same.long().argmin())


@HALVES
@EVERY
def test_a_model_in_half_precision_is_near_that_in_float32(
    name: str, task: str, dtype: torch.dtype
) -> None:
    net = model(name, task)
    for parameter in net.parameters():  # what rounding of the weights does is another matter
        parameter.data = parameter.data.to(dtype).float()
    decided = decisions(net)
    want, end = net(tokens(24), return_state=True)
    expected = decided.copy()
    decided.clear()
    got, state = net.to(dtype)(tokens(24), return_state=True)
    assert got.dtype == dtype
    assert state.dtype == end.dtype == torch.float32
    alike = min([24, *map(agreeing, decided, expected)])
    assert alike >= 20
    torch.testing.assert_close(
        got[:, :alike].float(), want[:, :alike], rtol=NEAR[dtype], atol=NEAR[dtype]
    )
    backward(got, net)
    stream = net.eval().stream()
    stream.state = state[:1].detach()
    torch.testing.assert_close(stream.step(1), net(tokens(1)[:1] * 0 + 1, state[:1])[0, 0])


@HALVES
@EVERY
def test_autocast_is_near_float32(name: str, task: str, dtype: torch.dtype) -> None:
    net = model(name, task)
    want = net(tokens(24))
    with torch.autocast("cpu", dtype=dtype):
        got, state = net(tokens(24), return_state=True)
        net(tokens(2), state)
    assert got.dtype == dtype
    assert state.dtype == torch.float32
    torch.testing.assert_close(got.float(), want, rtol=NEAR[dtype], atol=NEAR[dtype])
    backward(got, net)


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
        torch.nn.init.constant_(block.gate.bias, 1.0)
    want = net(tokens(400))[:, -1]
    scores = net.to(dtype)(tokens(400))
    assert scores.isfinite().all()
    if norm == "complex":
        torch.testing.assert_close(scores[:, -1].float(), want, rtol=NEAR[dtype], atol=4 * NEAR[dtype])
    backward(scores, net)


@HALVES
def test_counts_are_those_of_float32(dtype: torch.dtype) -> None:
    """A count of 2,500 is no number of either type beside its neighbours."""
    net = model("counter", "parenthesis")
    row = torch.ones(1, 2500, dtype=torch.int64)
    _, want = net(row, return_state=True)
    _, got = net.to(dtype)(row, return_state=True)
    assert want[:, 0, 0].abs().max() >= 2500
    assert torch.equal(got[:, 0], want[:, 0])


@HALVES
def test_a_block_alone(dtype: torch.dtype) -> None:
    block = Paper().make(Shape(4), Generator().manual_seed(1)).to(dtype)
    z = torch.randn(2, 9, 2, 4, generator=Generator().manual_seed(2)).to(dtype).requires_grad_()
    out, last = block(z, torch.zeros(2, 2, 4, dtype=dtype))
    assert out.dtype == dtype
    assert last.dtype == torch.float32
    out.sum().backward()
    assert z.grad is not None
    assert z.grad.isfinite().all()


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
