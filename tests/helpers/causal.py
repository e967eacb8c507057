"""What every layer of csprop.nn.peers must do, whatever it computes."""

from typing import TypeVar

import torch
from torch import Tensor, nn

Layer = TypeVar("Layer", bound=nn.Module)


def drawn(layer: Layer, scale: float = 0.1) -> Layer:
    """The layer with weights drawn anew around what they are, so that none of them is 0."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(scale * torch.randn_like(parameter))
    return layer


def check_causal(layer: nn.Module, steps: int = 150) -> None:
    """A change at a step changes what is given there, and nothing before."""
    x = torch.randn(2, steps, 64)
    with torch.no_grad():
        given = layer(x)
        for step in (0, 39, 40, 63, 64, steps - 1):
            changed = x.clone()
            changed[:, step] += 1.0
            other = layer(changed)
            torch.testing.assert_close(other[:, :step], given[:, :step], rtol=0, atol=1e-6)
            assert (other[:, step] - given[:, step]).abs().max() > 1e-4


def check_gradients(layer: nn.Module) -> None:
    """Gradients reach every parameter and the input, and are finite."""
    x = torch.randn(2, 80, 64, requires_grad=True)
    layer(x).square().sum().backward()
    for name, tensor in [("x", x), *layer.named_parameters()]:
        assert tensor.grad is not None, name
        assert tensor.grad.isfinite().all(), name
        assert (tensor.grad != 0).any(dim=-1).all(), name


def check_long(layer: nn.Module) -> None:
    """At length 16,384 all is finite, also where the input is large or nothing."""
    for scale in (0.0, 1.0, 30.0):
        with torch.no_grad():
            assert layer(scale * torch.randn(1, 16_384, 64)).isfinite().all()


def heads(x: Tensor) -> Tensor:
    """(B, T, 64) as four heads, (B, T, 4, 16)."""
    return x.unflatten(2, (4, 16))
