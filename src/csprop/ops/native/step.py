"""Training steps of one model, or of several together, in one call. step.hpp says what is computed.

The kernel changes parameters and the state of Adam in the tensors that torch has, so that nothing needs
to be copied, and either of the two can go on where the other was.
"""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer

from csprop.errors import InputError
from csprop.ops.counts import not_exact
from csprop.ops.native.layout import Layer, Part, Training, Weight
from csprop.ops.native.library import address, library, pack

Rows = Sequence[tuple[Tensor, Tensor]]
"""Tokens and labels, (B, T) int64, in parts; a label below 0 is none."""
WHOLE, SPAN = 1 << 10, 1 << 7
"""A row of more steps than the first goes in pieces of the second: what it takes stays in the cache."""
_PLACE = {name: place for place, name in enumerate(Training._fields)}
_PARTS, _BATCH, _RATE, _MOST, _LOSS, _NORM, _HITS, _TAKEN = (
    _PLACE[name] for name in ("parts", "batch", "rate", "most", "loss", "norm", "hits", "taken")
)


class Model(NamedTuple):
    """What the kernel is told about a model."""

    tensors: list[Tensor]
    """Contiguous CPU tensors of one type, float32 or float64."""
    trained: list[bool]
    """Whether each is a parameter that is trained."""
    first_of_rows: int
    """Rows of a batch have a part in the gradients of these tensors and of later ones."""
    layers: list[Layer]
    fields: dict[str, int]
    """Those of `Training` that the model decides."""
    temperature: float
    """Of its routers."""


class Loss(NamedTuple):
    """Cross-entropy, or the focal loss."""

    focal: bool
    gamma: float
    alpha: float


class Taken(NamedTuple):
    """What is known after a step."""

    loss: float
    norm: float
    """Of the gradients, before clipping."""
    hits: int
    """How many labelled steps had their label's score as the largest."""
    taken: bool
    """Whether the loss and the norm were finite; if not, nothing has changed."""


def foreign(model: Model, optimizer: Optimizer) -> bool:
    """Whether an optimiser does more, or with other tensors, than the kernel's Adam."""
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
    """Whether the state of Adam is one of this parameter."""
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
        weights, layers = pack(*map(self._weight, tensors, model.trained)), pack(*model.layers)
        self.packed = pack(
            Training(
                **model.fields, wide=self.gradient.dtype is torch.float64, depth=len(model.layers),
                tensors=len(tensors), first_of_rows=model.first_of_rows, layers=address(layers),
                weights=address(weights), gradient=self.gradient.data_ptr(), focal=loss.focal,
                whole=WHOLE, span=SPAN,
            )
        )  # fmt: skip
        self._kept = (weights, layers, tensors)
        self.reals = memoryview(self.packed).cast("B").cast("d")
        group = optimizer.param_groups[0]
        self._set(focal_gamma=loss.gamma, focal_alpha=loss.alpha, epsilon=group["eps"])
        self._set(first_decay=group["betas"][0], second_decay=group["betas"][1])
        self._set(weight_decay=group["weight_decay"], temperature=model.temperature)

    def _weight(self, tensor: Tensor, trained: bool) -> Weight:
        size, value = tensor.numel(), tensor.data_ptr()
        if not trained:
            return Weight(size, 0, value)
        state = self.optimizer.state[tensor]
        if not state:  # as Adam begins
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(tensor), torch.zeros_like(tensor)
        moments = [state[name].data_ptr() for name in ("exp_avg", "exp_avg_sq", "step")]
        return Weight(size, 1, value, *moments)

    def _set(self, **numbers: float) -> None:
        for name, number in numbers.items():
            self.reals[_PLACE[name]] = number

    def given(self, parts: int, batch: int, most: float) -> None:
        """Set what is new in a step: its rows, the learning rate, and the largest norm."""
        self.packed[_PARTS], self.packed[_BATCH] = parts, batch
        self.reals[_RATE], self.reals[_MOST] = self.optimizer.param_groups[0]["lr"], most

    def taken(self) -> Taken:
        """What the last step found."""
        return Taken(
            loss=self.reals[_LOSS],
            norm=self.reals[_NORM],
            hits=self.packed[_HITS],
            taken=bool(self.packed[_TAKEN]),
        )


def laid_out(rows: Rows) -> tuple[Rows, array]:
    """The rows in memory that the kernel can read, and where it finds them.

    Raises:
        InputError: tokens or labels are not CPU tensors of one shape (B, T), int64.
    """
    for tokens, labels in rows:
        alike = tokens.shape == labels.shape and tokens.dtype is labels.dtype is torch.int64
        if not alike or tokens.ndim != 2 or tokens.is_cuda or labels.is_cuda:
            raise InputError("tokens and labels must be int64 tensors of one shape (B, T), on the CPU")
    pairs = [(tokens.contiguous(), labels.contiguous()) for tokens, labels in rows]
    return pairs, pack(*(Part(len(x), x.shape[1], x.data_ptr(), y.data_ptr()) for x, y in pairs))


def check(status: int, dtype: torch.dtype) -> None:
    """Raise what went wrong in a call; kernel.cpp says what its status means.

    Raises:
        InputError: a token or a label is outside of its range, or a count is not exact.
        MemoryError: there is not enough memory.
    """
    if status == 1:
        raise MemoryError
    if status == 2:
        raise InputError("a token or a label is outside of its range")
    if status == 3:
        raise InputError(not_exact(dtype))


def take(steps: Sequence[tuple[Descent, Rows, float]]) -> list[Taken]:
    """Take a step of each model, with its own rows and the norm to which gradients are scaled down.

    Raises:
        InputError: a token or a label is outside of its range, or a count is not exact.
        MemoryError: there is not enough memory.
    """
    kept = []
    for descent, rows, most in steps:
        pairs, parts = laid_out(rows)
        kept.append((pairs, parts))
        descent.given(len(pairs), address(parts), most)
    models = pack(tuple(address(descent.packed) for descent, _, _ in steps))
    status = library().csprop_steps(address(models), len(steps), torch.get_num_threads())
    check(status, steps[0][0].gradient.dtype)
    return [descent.taken() for descent, _, _ in steps]
