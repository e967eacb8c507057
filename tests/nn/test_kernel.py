"""A model's call in the compiled kernel, against the same model in torch operations."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor

from csprop import CSP, Counter, CSPConfig, Paper, Rotor, Router, Switch, use_backend
from csprop.ops import native
from csprop.ops.native import forward
from csprop.ops.native import model as models
from tests.helpers.options import config, configs, model, vary

pytestmark = pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)

KINDS: dict[str, CSPConfig] = {
    "paper": config(Paper(), depth=3),
    "rotor": config(Rotor()),
    "rotor of order 3": config(Rotor(order=3, recall=True)),
    "router": config(Router()),
    "counter and switch": config(Counter(), cells=[Counter(), Switch()]),
}


@pytest.fixture(autouse=True)
def poison() -> Iterator[None]:
    """Memory that torch has not filled holds NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def draw(net: CSP, rows: int, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw tokens, a state whose counts are whole numbers, and resets."""
    g = Generator().manual_seed(steps)
    tokens = torch.randint(net.config.vocab_size, (rows, steps), generator=g)
    shape = (rows, net.config.depth, net.config.order, net.config.width)
    state = torch.randn(shape, generator=g).to(net.embedding)
    for number, cell in enumerate(net.config.layers):
        if isinstance(cell, Counter):
            state[:, number] = state[:, number].round()
    return tokens, state, torch.rand(rows, steps, generator=g) < 0.2


def compute(
    net: CSP, backend: str, steps: int, carries: bool, resets: bool, rows: int = 3
) -> list[Tensor | None]:
    """Return scores, last states, and the gradients of a generic function of both."""
    tokens, state, reset = draw(net, rows, steps)
    state.requires_grad_()
    net.zero_grad()
    with use_backend(backend):
        scores, last = net(
            tokens, state if carries else None, reset=reset if resets else None, return_state=True
        )
        weights = torch.randn(last.shape, generator=Generator().manual_seed(1)).to(last)
        directions = last / (torch.linalg.vector_norm(last.detach(), dim=2, keepdim=True) + 1)
        (scores.square().mean() + (directions * weights).sum()).backward()
    gradients = [None if p.grad is None else p.grad.clone() for p in net.parameters()]
    return [scores, last, state.grad if carries else None, *gradients]


def agree(net: CSP, steps: int, carries: bool, resets: bool, tolerance: float = 1e-7) -> None:
    """Check the kernel against torch, and that the kernel was used."""
    expected = compute(net, "torch", steps, carries, resets)
    with patch.object(forward, "propagate", wraps=forward.propagate) as kernel:
        results = compute(net, "native", steps, carries, resets)
    assert kernel.called
    for number, (got, want) in enumerate(zip(results, expected, strict=True)):
        if want is None or got is None:
            absent = want if got is None else got
            assert absent is None or not absent.any(), number
        else:
            torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", vary())
def test_every_single_option_agrees(name: str) -> None:
    net = model(config(vary()[name])).double()
    for carries, resets in ((False, False), (True, False), (False, True), (True, True)):
        agree(net, 17, carries, resets)


@settings(max_examples=80)
@given(
    chosen=configs(),
    steps=st.sampled_from([1, 2, 15, 16, 17, 40]),
    carries=st.booleans(),
    resets=st.booleans(),
)
def test_any_stack_of_cells_agrees(chosen: CSPConfig, steps: int, carries: bool, resets: bool) -> None:
    agree(model(chosen).double(), steps, carries, resets)


@pytest.mark.parametrize("span", [1, 3, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_in_pieces_agree(kind: str, span: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "WHOLE", 2)
    monkeypatch.setattr(models, "SPAN", span)
    for resets in (False, True):
        agree(model(KINDS[kind]).double(), 14, True, resets)
