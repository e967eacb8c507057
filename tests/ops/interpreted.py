"""The Triton kernel in Triton's interpreter; `test_triton.py` runs this in a process of its own."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor

from csprop import scan, use_backend
from csprop.ops import gpu, operators
from csprop.ops.gpu import kernels, launch
from csprop.ops.scan import GRADIENT_LIMIT, LIMIT, scan_by_steps

KINDS = [("real", 2), ("complex", 2), ("real", 3), ("matrix", 2), ("matrix", 3), ("matrix", 5)]
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}


def draw(
    kind: str, order: int, batch: int, steps: int, width: int, *, shared: bool, size: float,
    dtype: torch.dtype, seed: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """a, u, h0, a reset mask and what the states are multiplied by for a gradient."""
    g = Generator().manual_seed(seed)
    planes = {"real": (1,), "complex": (2,), "matrix": (order, order)}[kind]
    a = size * torch.randn(batch, steps, *planes, 1 if shared else width, generator=g, dtype=dtype)
    u, weight = torch.randn(2, batch, steps, order, width, generator=g, dtype=dtype)
    h0 = torch.randn(batch, order, width, generator=g, dtype=dtype)
    return a, u, h0, torch.rand(batch, steps, generator=g) < 0.3, weight


def assert_as_reference(
    a: Tensor, u: Tensor, h0: Tensor, reset: Tensor | None, weight: Tensor, tolerance: float
) -> None:
    """Values and gradients, against autograd through the specification in float64."""
    leaves = [leaf.clone().requires_grad_() for leaf in (a, u, h0)]
    h = operators.scan(*leaves, reset)
    exact = [leaf.double().requires_grad_() for leaf in (a, u, h0)]
    want = scan_by_steps(exact[0], exact[1], exact[2], reset)
    assert h.dtype == u.dtype
    atol = tolerance * want.detach().abs().max().item()
    torch.testing.assert_close(h.double(), want, rtol=tolerance, atol=atol)
    got = torch.autograd.grad(h, leaves, weight)
    for mine, expected in zip(got, torch.autograd.grad(want, exact, weight.double()), strict=True):
        assert mine.dtype == u.dtype
        atol = tolerance * expected.abs().max().item()
        torch.testing.assert_close(mine.double(), expected, rtol=tolerance, atol=atol)


@settings(max_examples=15, deadline=None, database=None, derandomize=True)
@given(
    kind=st.sampled_from(KINDS),
    batch=st.integers(1, 3),
    steps=st.integers(1, 5),
    width=st.sampled_from([1, 2, 3, 7, launch.WIDEST, launch.WIDEST + 1]),
    shared=st.booleans(),
    masked=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 2**20),
)
def test_values_and_gradients_are_those_of_the_reference(
    kind: tuple[str, int], batch: int, steps: int, width: int, shared: bool, masked: bool,
    dtype: torch.dtype, seed: int,
) -> None:  # fmt: skip
    a, u, h0, reset, weight = draw(
        *kind, batch, steps, width, shared=shared, size=0.7, dtype=dtype, seed=seed
    )
    with use_backend("triton"):
        assert_as_reference(a, u, h0, reset if masked else None, weight, TOLERANCE[dtype])


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_states_and_gradients_saturate_as_in_the_reference(kind: tuple[str, int], shared: bool) -> None:
    """|a| is about 2^25, so that states are scaled back from the third step on."""
    a, u, h0, _, weight = draw(*kind, 2, 6, 3, shared=shared, size=2.0**25, dtype=torch.float64, seed=1)
    norms = torch.linalg.vector_norm(scan_by_steps(a, u, h0), dim=2, keepdim=True)
    assert norms.max().item() == pytest.approx(LIMIT)
    with use_backend("triton"):
        assert_as_reference(a, u, h0, None, weight / norms, tolerance=1e-9)  # gradients of phases
        leaf = torch.zeros_like(u, requires_grad=True)  # grows from nothing: nothing saturates but it
        (grown,) = torch.autograd.grad(operators.scan(a, leaf, 0 * h0, None)[:, -1].sum(), leaf)
    norms = torch.linalg.vector_norm(grown, dim=2)
    assert norms.max().item() == pytest.approx(GRADIENT_LIMIT)
    (want,) = torch.autograd.grad(scan_by_steps(a, leaf, 0 * h0)[:, -1].sum(), leaf)
    torch.testing.assert_close(grown, want)


def test_a_tensor_with_strides_of_its_own_is_read_as_it_is() -> None:
    a, u, h0, reset, _ = draw("complex", 2, 2, 4, 5, shared=True, size=0.7, dtype=torch.float64, seed=2)
    start = h0[:1].expand(2, -1, -1)
    with use_backend("triton"):
        got = operators.scan(a.expand(-1, -1, -1, 5), u.mT.contiguous().mT, start, reset)
    torch.testing.assert_close(got, scan_by_steps(a, u, start, reset))


def test_a_nan_in_one_plane_is_one_in_all_as_in_the_reference() -> None:
    a, u, h0, _, _ = draw("real", 3, 1, 3, 2, shared=False, size=0.7, dtype=torch.float32, seed=3)
    u[0, 1, 2, 0] = math.nan
    with use_backend("triton"):
        got = operators.scan(a, u, h0, None)
    assert torch.equal(got.isnan(), scan_by_steps(a, u, h0).isnan())
    assert got.isnan().sum() == 6


@pytest.mark.parametrize(("batch", "steps", "width"), [(0, 3, 2), (2, 0, 2), (2, 3, 0)])
def test_nothing_to_compute(batch: int, steps: int, width: int) -> None:
    a, u, h0, _, weight = draw(
        "matrix", 3, batch, steps, width, shared=False, size=1, dtype=torch.float32, seed=4
    )
    with use_backend("triton"):
        h, last = scan(a, u, h0)
    assert h.shape == u.shape
    assert torch.equal(last, h0) == (not steps or not h0.numel())
    for got, like in zip(launch.adjoint(weight, a, u, h0, weight, None), (a, u, h0), strict=True):
        assert got.shape == like.shape
        assert not got.any()


def test_the_kernel_is_what_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other tests would hold if another backend did; the interpreter is used where asked for."""
    assert not gpu.why_not()
    a, u, h0, _, _ = draw("real", 2, 1, 2, 1, shared=False, size=1, dtype=torch.float32, seed=5)
    called = []
    monkeypatch.setattr(launch, "scan", lambda *given: called.append(given) or given[1])
    with use_backend("triton"):
        operators.scan(a, u, h0, None)
    assert called
    operators.scan(a, u, h0, None)
    assert len(called) == 1
    assert type(kernels.scan).__name__ == "InterpretedFunction"
