"""The initial step sizes of state-space layers."""

import math

import torch
from torch import Tensor


def log_steps(*shape: int, low: float = 1e-3, high: float = 1e-1) -> Tensor:
    """Logarithms of step sizes Δ, uniform between those of `low` and `high`."""
    return torch.empty(shape).uniform_(math.log(low), math.log(high))


def inverse_softplus(x: Tensor) -> Tensor:
    """Return the number whose softplus is x, for x > 0."""
    return x + torch.log(-torch.expm1(-x))
