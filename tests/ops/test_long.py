"""Scans so long that results are written past the cache."""

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Generator, Tensor

from csprop import scan, use_backend
from csprop.ops import native
from csprop.ops.scan import call_kernel

pytestmark = pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)

WIDTH = 64
TILE = (1 << 16) // (6 * WIDTH * 8)
"""The steps that a complex adjoint in float64 fetches together (`tile_of` in memory.hpp)."""
LONG = 4200
"""Steps of which one row fills more than the 4 MiB from which on results go past the cache."""
KINDS = [(1, 64), (2, 64), (2, 1), (3, 3, 64), (4, 4, 1), (7, 7, 64)]
"""The planes and columns of a."""


@pytest.fixture(autouse=True)
def poison() -> Iterator[None]:
    """Memory that torch has not filled holds NaN, and one thread is left behind."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(1)


def draw(
    batch: int, steps: int, kind: tuple[int, ...], width: int = WIDTH, modulus: float = 0.98
) -> list[Tensor]:
    """a of about that modulus, u, h0 and resets, in float64."""
    g = Generator().manual_seed(steps + width)
    planes, columns, order = kind[:-1], 1 if kind[-1] == 1 else width, max(2, kind[0])
    a = torch.randn(batch, steps, *planes, columns, generator=g, dtype=torch.float64)
    a *= modulus / (a.abs() if planes == (1,) else math.sqrt(2 if planes == (2,) else order))
    u = torch.randn(batch, steps, order, width, generator=g, dtype=torch.float64)
    h0 = torch.randn(batch, order, width, generator=g, dtype=torch.float64)
    return [a, u, h0, torch.rand(batch, steps, generator=g) < 0.01]


def agree(given: list[Tensor], backend: str, tolerance: float) -> None:
    """Check the kernel against another backend."""
    with use_backend(backend):
        expected = everything(*given)
    for got, want in zip(everything(*given), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


def everything(a: Tensor, u: Tensor, h0: Tensor, reset: Tensor) -> list[Tensor]:
    """States and last state, and the gradients of a generic function of both."""
    leaves = [each.clone().requires_grad_() for each in (a, u, h0)]
    h, last = scan(leaves[0], leaves[1], leaves[2], reset)
    seen = torch.randn(u.shape, generator=Generator().manual_seed(1), dtype=torch.float64).to(h.dtype)
    size = torch.linalg.vector_norm(h.detach(), dim=2, keepdim=True) + 1
    gradients = torch.autograd.grad((h / size * seen).sum() + last.sum(), leaves)
    return [h.detach(), last.detach(), *gradients]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("columns", [WIDTH, 1])
@pytest.mark.parametrize(
    ("batch", "steps"),
    [
        *((1, steps) for steps in (1, TILE - 1, TILE, TILE + 1, 2 * TILE, 2 * TILE + 1, 1024)),
        *((1, steps) for steps in (4095, 4096, 4097, LONG)),
        (3, LONG),
    ],
)
def test_long_complex_scans_equal_torch(batch: int, steps: int, columns: int, threads: int) -> None:
    torch.set_num_threads(threads)
    agree(draw(batch, steps, (2, columns)), "torch", 1e-11)


@pytest.mark.parametrize("width", [1, 7, 17, 50, 129])
def test_rows_of_any_width_equal_torch(width: int) -> None:
    """Some do not fill the lines of the cache."""
    torch.set_num_threads(2)
    agree(draw(3, 160_000 // max(width, 40), (2, width), width), "torch", 1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_transition_equals_the_reference_past_the_cache(kind: tuple[int, ...]) -> None:
    for threads in (1, 3):
        torch.set_num_threads(threads)
        agree(draw(8, 560 // max(2, kind[0]), kind, 128), "reference", 1e-9)


@pytest.mark.parametrize("modulus", [0.98, 1.5])
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_threads_gives_the_same_bits(
    kind: tuple[int, ...], batch: int, modulus: float
) -> None:
    """At 1.5 states and gradients reach their limits."""
    steps = 3100 // max(1, math.prod(kind[:-1]) // 2)  # enough for three threads
    for width in (WIDTH, 70):
        *numbers, reset = draw(batch, steps, kind, width, modulus)
        given = [*(each.float() for each in numbers), reset]
        one = everything(*given)
        for threads in (2, 3):
            torch.set_num_threads(threads)
            assert all(torch.equal(x, y) for x, y in zip(everything(*given), one, strict=True))
        torch.set_num_threads(1)


def test_results_that_begin_inside_a_line_are_right() -> None:
    a, u, h0, reset = draw(1, LONG, (2, WIDTH))
    h = torch.full((u.numel() + 1,), math.nan, dtype=u.dtype)[1:].view_as(u)
    call_kernel(a=a, u=u, h0=h0, reset=reset, h=h)
    assert torch.equal(h, scan(a, u, h0, reset)[0])
