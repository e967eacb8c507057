"""The loss, and one training step: by the compiled kernel in one call, or by torch operations."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim
from torch.optim import Optimizer

from csprop.data.examples import UNLABELLED
from csprop.nn.kernel import describe_model, why_not
from csprop.ops.native.step import Descent, Loss, foreign
from csprop.training.batches import Batch
from csprop.training.presets import Recipe


class Adam(optim.Adam):
    """torch's Adam, made without importing torch's compiler, which takes longer than short runs."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, with options of their own; torch's method would import the compiler."""
        self.param_groups.append(self.defaults | param_group)


def not_finite(value: float, norm: float) -> FloatingPointError:
    """Return the error of a step whose loss or gradient norm is not finite."""
    return FloatingPointError(
        f"the loss is {value} and the gradient norm {norm}; the step was not taken"
    )


def loss(logits: Tensor, labels: Tensor, recipe: Recipe) -> Tensor:
    """Return the mean loss of scores (B, T, V) over the steps of (B, T) that have a label."""
    surprise = F.cross_entropy(
        logits.flatten(0, -2), labels.flatten(), ignore_index=UNLABELLED, reduction="none"
    )
    surprise = surprise.view(labels.shape)  # −log p_t, 0 where there is no label
    if recipe.loss == "focal":
        surprise = focal(surprise, labels, logits.shape[-1], recipe.focal_gamma, recipe.focal_alpha)
    return surprise.sum(dim=(-2, -1)) / (labels != UNLABELLED).sum(dim=(-2, -1))


def focal(surprise: Tensor, labels: Tensor, classes: int, gamma: float, alpha: float) -> Tensor:
    """−α_t (1 − p_t)^γ log p_t (Lin et al., 2017), p_t the probability of the correct class.

    α_t is α for class 1 and 1 − α for class 0; with more classes than two it is 1.
    """
    # 1 − p_t, bounded away from 0, where the gradient of a power below 1 is infinite.
    doubt = -torch.expm1(-surprise)
    weighted = doubt.clamp(min=1e-12) ** gamma * surprise
    return weighted * torch.where(labels == 1, alpha, 1 - alpha) if classes == 2 else weighted


def descend(
    optimizer: Optimizer, parameters: Sequence[Tensor], clip_norm: float, value: float = 0.0
) -> float:
    """Take one optimiser step with the gradients of the parameters, scaled down to a norm.

    Returns:
        The norm of the gradients before clipping.

    Raises:
        FloatingPointError: the loss, `value`, or the norm is not finite; no step is taken.
    """
    norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    if not (math.isfinite(value) and math.isfinite(norm.item())):
        raise not_finite(value, norm.item())
    if clip_norm < math.inf:
        nn.utils.clip_grads_with_norm_(parameters, clip_norm, norm)
    optimizer.step()
    return norm.item()


def set_gradients(model: nn.Module, batch: Batch, recipe: Recipe) -> float:
    """Set the gradients of a batch on the parameters by torch operations, and return its loss."""
    model.zero_grad()
    counts = [int((labels != UNLABELLED).sum()) for _, labels in batch]
    total = 0.0
    for (tokens, labels), count in zip(batch, counts, strict=True):
        value = loss(model(tokens), labels, recipe) * (count / sum(counts))
        value.backward()
        total += value.item()
    return total


def kernel_step(model: nn.Module, optimizer: Optimizer, recipe: Recipe) -> Descent | None:
    """Return the step of the compiled kernel; None if it does not know the model or the optimiser."""
    if why_not(model):
        return None
    layout = describe_model(model)  # pyright: ignore[reportArgumentType]
    if foreign(layout, optimizer):
        return None
    focal = Loss(recipe.loss == "focal", recipe.focal_gamma, recipe.focal_alpha)
    return Descent(layout, optimizer, focal)  # pyright: ignore[reportArgumentType]
