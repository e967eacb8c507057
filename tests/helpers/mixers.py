"""What every layer of features must hold, whatever it computes."""

import torch
from torch import nn


def check_causal(layer: nn.Module, width: int, steps: int, at: int) -> None:
    """A change at one step changes nothing before it, and something from there on."""
    x = torch.randn(2, steps, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    changed = x.clone()
    changed[:, at] += 1
    with torch.no_grad():
        before, after = layer.double()(x), layer(changed)
    torch.testing.assert_close(before[:, :at], after[:, :at], rtol=1e-9, atol=1e-10)
    assert (before[:, at] - after[:, at]).abs().amax(dim=1).min() > 1e-6


def check_gradients(layer: nn.Module, width: int, steps: int) -> None:
    """Gradients reach the input and every parameter, and are finite."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, steps, width, generator=generator, requires_grad=True)
    layer(x).square().sum().backward()
    for name, value in [("x", x), *layer.named_parameters()]:
        assert value.grad is not None, name
        assert value.grad.isfinite().all(), name
        assert value.grad.abs().max() > 0, name


def check_long(layer: nn.Module, width: int, scale: float = 3.0) -> None:
    """After 16,384 steps of large inputs everything is finite."""
    x = scale * torch.randn(1, 16384, width, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        assert layer(x).isfinite().all()
