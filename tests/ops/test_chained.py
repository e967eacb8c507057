"""The `torch` backend as it is on other devices than the CPU, which are waited for."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from csprop.ops import chained, reference
from csprop.ops.planes import GRADIENT_LIMIT, LIMIT
from tests.ops.test_scan import KINDS, MATRIX, draw


def both(
    a: Tensor, u: Tensor, h0: Tensor, reset: Tensor | None, weight: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """States and gradients, of `chained` and by autograd through the specification."""
    leaves = [leaf.detach().clone().requires_grad_() for leaf in (a, u, h0)]
    want = reference.scan(leaves[0], leaves[1], leaves[2], reset)
    gradients = torch.autograd.grad(want, leaves, weight)
    h = chained.scan(a, u, h0, reset)
    return [h, *chained.adjoint(weight, a, u, h0, h, reset)], [want.detach(), *gradients]


@settings(max_examples=60)
@given(
    kind=st.sampled_from(KINDS),
    steps=st.integers(1, 40),
    modulus=st.sampled_from([0.5, 1.0, 1.05]),
    shared=st.booleans(),
    masked=st.booleans(),
    seed=st.integers(0, 99),
)
def test_values_and_gradients_are_those_of_the_reference(
    kind: tuple[int, int], steps: int, modulus: float, shared: bool, masked: bool, seed: int
) -> None:
    planes, order = kind
    a, u, h0, reset = draw(steps, planes=planes, order=order, modulus=modulus, shared=shared, seed=seed)
    weight = torch.randn(u.shape, generator=torch.Generator().manual_seed(seed), dtype=u.dtype)
    for got, want in zip(*both(a, u, h0, reset if masked else None, weight), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("planes", "order"), KINDS)
def test_states_and_gradients_that_only_grow_saturate_as_in_the_reference(
    planes: int, order: int, dtype: torch.dtype
) -> None:
    """The last states are 2^200 without a limit, in the middle of a chunk."""
    a, u, h0, _ = draw(200, planes=planes, order=order, modulus=2.0, dtype=dtype)
    weight = torch.randn(u.shape, generator=torch.Generator().manual_seed(1), dtype=dtype) / LIMIT
    got, want = both(a, u, h0, None, weight)
    assert torch.linalg.vector_norm(want[0], dim=2).max().item() == pytest.approx(LIMIT)
    tolerance = 1e-9 if dtype is torch.float64 else 1e-3
    for mine, expected in zip(got, want, strict=True):
        assert mine.isfinite().all()
        size = expected.abs().max().item()
        torch.testing.assert_close(mine, expected, rtol=tolerance, atol=tolerance * size)


def test_what_grows_from_nothing_and_is_forgotten_leaves_no_trace() -> None:
    """Products of 2^400 in a chunk, at a state of 0 or before a reset, which float32 cannot hold."""
    a, u = torch.full((1, 100, 1, 2), 16.0), torch.zeros(1, 100, 2, 2)
    u[:, 98:], u[:, 45, :, 1] = 1.0, 1.0
    reset = torch.zeros(1, 100, dtype=torch.bool)
    reset[0, 97] = True
    weight = torch.zeros_like(u)
    weight[:, 1] = 1.0
    for got, want in zip(*both(a, u, torch.zeros(1, 2, 2), reset, weight), strict=True):
        torch.testing.assert_close(got, want)


def test_gradients_of_a_channel_that_grows_from_nothing_are_bounded_alike() -> None:
    a, u, h0, _ = draw(60, planes=MATRIX, order=3, modulus=3.0)
    weight = torch.zeros_like(u)
    weight[:, -1] = 1.0
    got, want = both(a, 0 * u, 0 * h0, None, weight)
    assert torch.linalg.vector_norm(want[2], dim=2).max().item() == pytest.approx(GRADIENT_LIMIT)
    torch.testing.assert_close(got[2], want[2])


@pytest.mark.parametrize(("planes", "order"), KINDS)
def test_a_state_that_comes_back_from_its_limit_is_bounded(planes: int, order: int) -> None:
    """Where the starts of chunks are not those of the reference."""
    a, u, h0, reset = draw(300, planes=planes, order=order, modulus=1.0, dtype=torch.float32)
    wild = a * torch.exp2(20 * torch.randn(2, 300, generator=torch.Generator().manual_seed(2))).reshape(
        2, 300, *[1] * (a.ndim - 2)
    )
    got, _ = both(wild, u, h0, reset, torch.ones_like(u))
    assert all(each.isfinite().all() for each in got)
    assert torch.linalg.vector_norm(got[0], dim=2).max() <= LIMIT * (1 + 1e-6)
    assert torch.linalg.vector_norm(got[2], dim=2).max() <= GRADIENT_LIMIT * (1 + 1e-6)
