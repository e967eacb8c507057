"""Small parts that blocks and decoders share."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from csprop.ops.backends import exporting
from csprop.ops.planes import wide

# The paper's ε, and what keeps the square root's gradient finite at 0.
EPSILON = 1e-8
TINY = 1e-30


def linear(
    inputs: int, outputs: int, generator: Generator, bias: bool = True, spread: float = 1.0
) -> nn.Linear:
    """Return an `nn.Linear` with PyTorch's default initialisation, scaled by `spread`."""
    layer = nn.Linear(inputs, outputs, bias=bias, device="meta")  # which draws nothing
    bound = spread / math.sqrt(inputs)
    for name, parameter in list(layer.named_parameters()):
        start = torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator)
        setattr(layer, name, nn.Parameter(start))
    return layer


@torch.no_grad()
def start_again(module: nn.Module, make: Callable[[], nn.Module]) -> None:
    """Copy the values of a new module, which is made on the CPU, where its generator is."""
    with torch.device("cpu"):
        fresh = make()
    for mine, new in zip(module.parameters(), fresh.parameters(), strict=True):
        mine.copy_(new)
    for mine, new in zip(module.buffers(), fresh.buffers(), strict=True):
        mine.copy_(new)


def unit(h: Float[Tensor, "*batch M D"], epsilon: float = EPSILON) -> Float[Tensor, "*batch M D"]:
    """Return h / (|h| + ε) in float32 or float64, with a finite gradient at h = 0."""
    return h / modulus(h, TINY, epsilon)


def modulus(h: Float[Tensor, "*batch M D"], under: float, beside: float) -> Float[Tensor, "*batch 1 D"]:
    """Return sqrt(|h|² + under) + beside."""
    squared = wide(h).square().sum(dim=-2, keepdim=True)
    if exporting():  # which takes a number this small for 0, but no tensor of one dimension
        return (squared + squared.new_full((1,), under)).sqrt() + squared.new_full((1,), beside)
    return (squared + under).sqrt() + beside


def polar(modulus: Tensor, angle: Tensor) -> Float[Tensor, "*batch 2 D"]:
    """Return modulus · e^{i·angle} as two planes."""
    return torch.stack([modulus * angle.cos(), modulus * angle.sin()], dim=-2)
