"""The complex scan of given a and u, forward and backward, by each implementation there is."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Generator, Tensor

from csprop import scan
from csprop_lab.bench.steps import with_backend

COPY = "a copy of as many bytes"


def scans(batch: int, steps: int, width: int) -> dict[str, Callable[[], object]]:
    """The scan by each implementation, and a copy that moves as many bytes as it has to.

    The forward pass reads a and u and writes h; the backward pass reads a, h and the gradient of h, and
    writes the gradients of a and u. That is eight times the size of h. A copy of four times its size
    reads four and writes four.
    """
    generator = Generator().manual_seed(0)
    angle, *u = torch.randn(3, batch, steps, width, generator=generator)
    a = [0.99 * angle.cos(), 0.99 * angle.sin()]
    planes = [torch.stack(pair, dim=2).requires_grad_() for pair in (a, u)]  # (B, T, 2, D)
    parts = [part.clone().requires_grad_() for part in (*a, *u)]
    ones = torch.ones_like(planes[0])
    pair_of_ones = [torch.ones_like(part) for part in u]
    source, target = torch.ones(2, 4, *planes[0].shape)

    def ours() -> None:
        h, _ = scan(*planes)
        torch.autograd.grad(h, planes, ones)

    def associative() -> None:
        torch.autograd.grad(_associative(*parts), parts, pair_of_ones)

    ways: dict[str, Callable[[], object]] = {
        "csprop": ours,
        "torch backend": with_backend("torch", ours),
        "torch associative_scan, eager": associative,
        COPY: lambda: target.copy_(source),
    }
    if find_spec("mambapy"):
        ways["mambapy pscan"] = _mambapy(*([part.detach() for part in pair] for pair in (a, u)))
    return ways


def _associative(a_re: Tensor, a_im: Tensor, u_re: Tensor, u_im: Tensor) -> list[Tensor]:
    from torch._higher_order_ops.associative_scan import associative_scan

    def combine(first: Any, second: Any) -> Any:
        (a, b, c, d), (e, f, g, h) = first, second
        return a * e - b * f, a * f + b * e, e * c - f * d + g, e * d + f * c + h

    states = associative_scan(combine, (a_re, a_im, u_re, u_im), dim=1, combine_mode="generic")
    return list(states[2:])


def _mambapy(*pairs: list[Tensor]) -> Callable[[], object]:
    """Its backward pass is for real numbers and lacks the conjugate; the work is the same."""
    from mambapy.pscan import pscan  # pyright: ignore[reportMissingImports]

    numbers = [torch.complex(*pair)[..., None].requires_grad_() for pair in pairs]  # (B, T, D, 1)
    ones = torch.full_like(numbers[0].detach(), 1 + 1j)

    def work() -> None:
        torch.autograd.grad(pscan(*numbers), numbers, ones)

    return work
