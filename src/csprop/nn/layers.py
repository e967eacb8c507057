"""Small parts that every file of this folder uses."""

import math

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

# The paper's ε, and what keeps the square root's gradient finite at 0.
EPSILON = 1e-8
TINY = 1e-30


def linear(
    inputs: int, outputs: int, generator: Generator, bias: bool = True, spread: float = 1.0
) -> nn.Linear:
    """torch's Linear, its usual start drawn from the given generator, or one so much wider."""
    layer = nn.Linear(inputs, outputs, bias=bias, device="meta")  # which draws nothing
    bound = spread / math.sqrt(inputs)
    for name, parameter in list(layer.named_parameters()):
        start = torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator)
        setattr(layer, name, nn.Parameter(start))
    return layer


def unit(h: Float[Tensor, "*batch M D"], epsilon: float = EPSILON) -> Float[Tensor, "*batch M D"]:
    """h / (|h| + ε), with a finite gradient at h = 0."""
    squared = h.square().sum(dim=-2, keepdim=True)
    return h / ((squared + TINY).sqrt() + epsilon)


def polar(modulus: Tensor, angle: Tensor) -> Float[Tensor, "*batch 2 D"]:
    """modulus · e^{i·angle} as two planes."""
    return torch.stack([modulus * angle.cos(), modulus * angle.sin()], dim=-2)
