"""Training steps of one model, or of several together, in one call. step.hpp says what is computed.

The kernel changes parameters and the state of Adam in torch's own tensors. Nothing is copied, and the
kernel and torch can take turns.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer

from csprop.ops.native import model as models
from csprop.ops.native.model import Model, Rows, pack_rows, run_steps


class Loss(NamedTuple):
    """Cross-entropy, or the focal loss."""

    focal: bool
    gamma: float
    alpha: float


class Taken(NamedTuple):
    """The outcome of a step."""

    loss: float
    norm: float
    """The norm of the gradients, before clipping."""
    hits: int
    """The number of labelled steps whose label had the largest score."""
    taken: bool
    """True if the loss and the norm were finite; if not, nothing has changed."""


def foreign(model: Model, optimizer: Optimizer) -> bool:
    """Return True if an optimiser does more, or with other tensors, than the kernel's Adam."""
    if not isinstance(optimizer, Adam) or len(optimizer.param_groups) != 1:
        return True
    group = optimizer.param_groups[0]
    own = [tensor for tensor, trained in zip(model.tensors, model.trained, strict=True) if trained]
    options = ("amsgrad", "maximize", "differentiable", "decoupled_weight_decay")
    hooks = optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks
    return (
        any(map(group.get, options))
        or any(hooks)
        or not {id(tensor) for tensor in own} <= {id(tensor) for tensor in group["params"]}
        or any(
            not matches(optimizer.state[tensor], tensor)
            for tensor in own
            if optimizer.state.get(tensor)
        )
    )


def matches(state: dict[str, Tensor], parameter: Tensor) -> bool:
    """Return True if the state of Adam belongs to this parameter."""
    moments, step = [state.get("exp_avg"), state.get("exp_avg_sq")], state.get("step")
    return (
        all(
            each is not None
            and (each.shape, each.dtype, each.device)
            == (parameter.shape, parameter.dtype, parameter.device)
            and each.is_contiguous()
            for each in moments
        )
        and step is not None
        and step.shape == ()
        and step.dtype is torch.float32
    )


class Descent:
    """A model and its optimiser, laid out for the kernel; as long as no tensor of them is replaced."""

    def __init__(self, model: Model, optimizer: Adam, loss: Loss) -> None:
        tensors = model.tensors
        sizes = [tensor.numel() for tensor in tensors]
        self.optimizer = optimizer
        self.gradient = tensors[0].new_zeros(sum(sizes))
        for tensor, trained, part in zip(
            tensors, model.trained, self.gradient.split(sizes), strict=True
        ):
            tensor.grad = part.view_as(tensor) if trained else None
        group = optimizer.param_groups[0]
        self.arguments = model.pack(
            list(map(self._weight, tensors, model.trained)), temperature=model.temperature,
            gradient=self.gradient, whole=models.WHOLE, span=models.SPAN, focal=loss.focal,
            focal_gamma=loss.gamma, focal_alpha=loss.alpha, epsilon=group["eps"],
            first_decay=group["betas"][0], second_decay=group["betas"][1],
            weight_decay=group["weight_decay"],
        )  # fmt: skip

    def _weight(self, tensor: Tensor, trained: bool) -> dict[str, Any]:
        weight = {"size": tensor.numel(), "trained": trained, "value": tensor}
        if not trained:
            return weight
        state = self.optimizer.state[tensor]
        if not state:  # as Adam begins
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(tensor), torch.zeros_like(tensor)
        return weight | {
            "mean": state["exp_avg"], "square": state["exp_avg_sq"], "steps": state["step"]
        }  # fmt: skip

    def prepare(self, rows: Rows, most: float) -> None:
        """Set the rows of a step, the learning rate, and the largest norm."""
        fields = pack_rows(rows) | {"rate": self.optimizer.param_groups[0]["lr"], "most": most}
        for name, value in fields.items():
            self.arguments[name] = value
        self._rows = fields

    def outcome(self) -> Taken:
        """Return what the last step found."""
        loss, norm, hits, taken = map(self.arguments.__getitem__, Taken._fields)
        return Taken(loss, norm, hits, bool(taken))


def take(steps: Sequence[tuple[Descent, Rows, float]]) -> list[Taken]:
    """Take a step of each model, with its own rows and the norm to which gradients are scaled down."""
    for descent, rows, most in steps:
        descent.prepare(rows, most)
    run_steps([descent.arguments for descent, _, _ in steps], steps[0][0].gradient.dtype)
    return [descent.outcome() for descent, _, _ in steps]
