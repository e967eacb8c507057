"""What every layer of csprop_lab.layers must do, whatever it computes."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Generator, Tensor, nn

Layer = TypeVar("Layer", bound=nn.Module)


def perturb(layer: Layer, scale: float = 0.1) -> Layer:
    """The layer with weights drawn anew around what they are, so that none of them is 0."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(scale * torch.randn_like(parameter))
    return layer


def check_causal(layer: nn.Module, width: int = 64, steps: int = 150) -> None:
    """A change at a step, also at the edges of chunks, changes what follows and nothing before."""
    generator = Generator().manual_seed(1)
    x, other = torch.randn(2, 2, steps, width, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        before = layer.double()(x)
        for at in (0, 39, 40, 63, 64, steps - 1):
            changed = x.clone()
            changed[:, at] = other[:, at]
            after = layer(changed)
            torch.testing.assert_close(before[:, :at], after[:, :at], rtol=1e-9, atol=1e-10)
            apart = (before - after)[:, at : at + 4].abs().amax(dim=2)
            assert apart[:, 0].min() > 1e-6
            assert apart.min() > 1e-9, "it remembers nothing"
        other[0] = x[0]
        torch.testing.assert_close(layer(other)[0], before[0])  # whatever the second sequence is


def check_same(layer: nn.Module, truth: Callable[[Tensor], Tensor], x: Tensor, close: float) -> None:
    """Values and all gradients of a layer are those of a slower way to compute it."""
    given = [x.requires_grad_(), *layer.parameters()]
    ours, theirs = layer(x), truth(x)
    torch.testing.assert_close(ours, theirs, rtol=close, atol=close)
    weights = torch.randn(ours.shape, generator=Generator().manual_seed(2)).to(ours)
    mine, its = (torch.autograd.grad((each * weights).sum(), given) for each in (ours, theirs))
    torch.testing.assert_close(mine, its, rtol=close, atol=close)


def check_long(layer: nn.Module, width: int = 64) -> None:
    """At length 16,384 all is finite, also where the input is large or nothing."""
    x = torch.randn(3, 16_384, width, generator=Generator().manual_seed(1))
    with torch.no_grad():
        assert layer(torch.tensor([0.0, 1.0, 30.0])[:, None, None] * x).isfinite().all()
