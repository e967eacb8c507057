"""One training step: by the compiled kernel in one call, or by torch operations."""

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn, optim
from torch.optim import Optimizer

from csprop.data.examples import UNLABELLED
from csprop.nn.kernel import describe_model, why_not
from csprop.ops.native.model import Model
from csprop.ops.native.step import Descent, Loss, foreign, take
from csprop.training.batches import Batch
from csprop.training.losses import loss
from csprop.training.presets import Recipe


class Adam(optim.Adam):
    """torch's Adam, made without importing torch's compiler, which takes longer than short runs.

    The overridden method imports it; where torch takes the steps, the first step does.
    """

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, with options of their own."""
        self.param_groups.append(self.defaults | param_group)


def not_finite(value: float, norm: float) -> FloatingPointError:
    """Return the error of a step whose loss or gradient norm is not finite."""
    return FloatingPointError(
        f"the loss is {value} and the gradient norm {norm}; the step was not taken"
    )


def descend(
    optimizer: Optimizer, parameters: Sequence[Tensor], clip_norm: float | None, value: float = 0.0
) -> float:
    """Take one optimiser step with the gradients that are set on the parameters.

    Args:
        optimizer: takes the step.
        parameters: the parameters, with their gradients.
        clip_norm: gradients with a larger norm are scaled down to it.
        value: the loss, which must be finite.

    Returns:
        The norm of the gradients before clipping.

    Raises:
        FloatingPointError: the loss or the norm is not finite; no step is taken.
    """
    norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    if not (math.isfinite(value) and math.isfinite(norm.item())):
        raise not_finite(value, norm.item())
    if clip_norm is not None:
        nn.utils.clip_grads_with_norm_(parameters, clip_norm, norm)
    optimizer.step()
    return norm.item()


class TorchStep:
    """Steps of torch operations, for any model and any optimiser."""

    def __init__(self, model: nn.Module, recipe: Recipe) -> None:
        self.model, self.recipe = model, recipe

    def set_gradients(self, batch: Batch) -> float:
        """Set the gradients of a batch on the parameters, and return its loss."""
        self.model.zero_grad()
        counts = [int((labels != UNLABELLED).sum()) for _, labels in batch]
        total = 0.0
        for (tokens, labels), count in zip(batch, counts, strict=True):
            value = loss(self.model(tokens), labels, self.recipe) * (count / sum(counts))
            value.backward()
            total += value.item()
        return total


class KernelStep:
    """Steps of the compiled kernel, which computes gradients and moves the weights in one call.

    Args:
        model: the description of the model for the kernel.
        optimizer: the Adam whose state the kernel moves.
        recipe: names the loss.
    """

    def __init__(self, model: Model, optimizer: optim.Adam, recipe: Recipe) -> None:
        focal = Loss(recipe.loss == "focal", recipe.focal_gamma, recipe.focal_alpha)
        self.descent = Descent(model, optimizer, focal)

    def set_gradients(self, batch: Batch) -> float:
        """Set the gradients of a batch on the parameters, and return its loss.

        The optimiser must have the learning rate 0.
        """
        if batch:
            return take([(self.descent, batch, math.inf)])[0].loss
        self.descent.gradient.zero_()
        return 0.0


def choose_step(
    model: nn.Module, optimizer: Optimizer, recipe: Recipe, alone: bool
) -> TorchStep | KernelStep:
    """Return the kernel's step if it knows this model and this optimiser, else torch's.

    Args:
        model: the model.
        optimizer: its optimiser.
        recipe: names the loss.
        alone: False if gradients of several processes are added up before the optimiser moves.
    """
    if not why_not(model):
        layout = describe_model(model)  # pyright: ignore[reportArgumentType]
        if not foreign(layout, optimizer):
            own: Any = optimizer if alone else Adam(model.parameters(), lr=0.0)
            return KernelStep(layout, own, recipe)
    return TorchStep(model, recipe)


def take_in_one_call(
    steps: Sequence[KernelStep], batches: Sequence[Batch], clip_norms: Sequence[float | None]
) -> list[tuple[float, float] | FloatingPointError]:
    """Take a step of each of several models in one call of the kernel.

    Returns:
        For each model the loss and the norm of its gradients, or the error if one was not finite.
    """
    limits = [math.inf if norm is None else norm for norm in clip_norms]
    descents = [step.descent for step in steps]
    return [
        (each.loss, each.norm) if each.taken else not_finite(each.loss, each.norm)
        for each in take([*zip(descents, batches, limits, strict=True)])
    ]
