"""Heads of a Tracker: the kernel computes what the loops of the specification compute."""

import pytest
import torch
from torch import Tensor

from csprop import use_backend
from csprop.ops import heads, native

needs_kernel = pytest.mark.skipif(bool(native.WHY_NOT), reason="there is no kernel")


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def both(run, *inputs: Tensor) -> list[list[Tensor]]:
    """The values and all gradients, by the loops and by the kernel."""
    results = []
    for name in ("reference", "native"):
        with use_backend(name):
            y = run(*inputs)
        weights = torch.arange(y.numel(), dtype=y.dtype).sin().view_as(y)
        results.append([y, *torch.autograd.grad(y, inputs, weights)])
    return results


def resets(batch: int, steps: int) -> Tensor:
    return draw(batch, steps, seed=7) > 0.8


@needs_kernel
@pytest.mark.parametrize("count", [1, 4, 13, 16])
@pytest.mark.parametrize("order", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("resetting", [False, True])
def test_turns(order: int, count: int, resetting: bool) -> None:
    u = draw(3, 9, 4, order, count).requires_grad_()
    h0 = (
        torch.linalg.qr(draw(3, count, order, order))
        .Q.permute(0, 2, 3, 1)
        .contiguous()
        .requires_grad_()
    )
    reset = resets(3, 9) if resetting else None
    by_loops, by_kernel = both(lambda u, h0: heads.turns(u, h0, reset), u, h0)
    for loops, kernel in zip(by_loops, by_kernel, strict=True):
        torch.testing.assert_close(kernel, loops, rtol=1e-9, atol=1e-9)


@needs_kernel
@pytest.mark.parametrize("count", [1, 4, 13, 16])
@pytest.mark.parametrize("places", [2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("resetting", [False, True])
def test_places(places: int, count: int, resetting: bool) -> None:
    logits = (2 * draw(3, 9, places, places, count)).requires_grad_()
    h0 = draw(3, places, count).softmax(dim=1).requires_grad_()
    reset = resets(3, 9) if resetting else None
    by_loops, by_kernel = both(lambda logits, h0: heads.places(logits, h0, reset), logits, h0)
    for loops, kernel in zip(by_loops, by_kernel, strict=True):
        torch.testing.assert_close(kernel, loops, rtol=1e-10, atol=1e-12)


def test_turns_are_products_of_reflections() -> None:
    u, h = draw(1, 5, 2, 3, 1), torch.eye(3, dtype=torch.float64)
    found = heads.turns(u, heads.identity(u.new_empty(1, 3, 3, 1)))
    for step in range(5):
        for vector in u[0, step, :, :, 0]:
            v = vector / vector.norm()
            h = (torch.eye(3, dtype=torch.float64) - 2 * torch.outer(v, v)) @ h
        torch.testing.assert_close(found[0, step, :, :, 0], h)


def test_places_square_and_share_out() -> None:
    logits, h = draw(1, 5, 3, 3, 1), [1.0, 0.0, 0.0]
    found = heads.places(logits, heads.first_place(logits.new_empty(1, 3, 1)))
    for step in range(5):
        maps = logits[0, step, :, :, 0].exp()
        y = [sum(float(maps[i, j] / maps[:, j].sum()) * h[j] for j in range(3)) for i in range(3)]
        h = [each**2 / sum(one**2 for one in y) for each in y]
        assert found[0, step, :, 0].tolist() == pytest.approx(h)


def test_gradients_of_the_loops() -> None:
    u = draw(1, 3, 2, 3, 2).requires_grad_()
    h0 = heads.identity(u.new_empty(1, 3, 3, 2)).clone().requires_grad_()
    logits, shares = draw(1, 3, 3, 3, 2).requires_grad_(), draw(1, 3, 2).softmax(dim=1).requires_grad_()
    with use_backend("reference"):
        assert torch.autograd.gradcheck(heads.turns, (u, h0))
        assert torch.autograd.gradcheck(heads.places, (logits, shares))
