"""A whole model in one call of the kernel: its scores, their adjoint, and one token at a time.

step.hpp and every.hpp say what is computed. Nothing is kept between a forward pass and its adjoint: a
row is computed again while it is in the cache.
"""

from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from csprop.errors import InputError
from csprop.ops.checks import contiguous, refuse_second_derivatives
from csprop.ops.counts import not_exact
from csprop.ops.native.library import Arguments, call, library, pack

Rows = Sequence[tuple[Tensor, Tensor]]
"""Tokens and labels, (B, T) int64, in parts; a label below 0 is not a label."""
WHOLE, SPAN = 1 << 10, 1 << 7
"""A row of more steps than the first goes in pieces of the second, which stay in the cache."""


class Model(NamedTuple):
    """The tensors of a model, and the fields of the kernel's structures that they decide."""

    tensors: list[Tensor]
    """Contiguous CPU tensors of one type, float32 or float64."""
    trained: list[bool]
    """For each tensor, True if it is a parameter with a gradient."""
    first_of_rows: int
    """Rows of a batch have a part in the gradients of these tensors and of later ones."""
    layers: list[dict[str, Any]]
    """The fields of `Layer`."""
    fields: dict[str, Any]
    """Fields of the structure `Model`."""
    temperature: float
    """The temperature of its routers in training."""

    def pack(self, weights: list[dict[str, Any]] | None = None, **fields: Any) -> Arguments:
        """Lay out the model with more fields; `weights` has the fields of each tensor's `Weight`."""
        if weights is None:
            weights = [{"size": each.numel(), "value": each.data_ptr()} for each in self.tensors]
        own = {
            "wide": self.tensors[0].dtype is torch.float64, "depth": len(self.layers),
            "tensors": len(self.tensors), "first_of_rows": self.first_of_rows,
            "layers": pack("Layer", *self.layers), "weights": pack("Weight", *weights),
        }  # fmt: skip
        return pack("Model", {**own, **self.fields, **fields})


def pack_rows(rows: Rows) -> dict[str, Any]:
    """Lay out rows as fields of the structure `Model`."""
    parts = []
    for tokens, labels in rows:
        alike = tokens.shape == labels.shape and tokens.dtype is labels.dtype is torch.int64
        if not alike or tokens.ndim != 2 or tokens.is_cuda or labels.is_cuda:
            raise InputError("tokens and labels must be int64 tensors of one shape (B, T), on the CPU")
        parts.append(_part(tokens.contiguous(), labels.contiguous()))
    return {"parts": len(parts), "batch": pack("Part", *parts)}


def pack_tokens(tokens: Tensor) -> dict[str, Any]:
    """Lay out rows (B, T) whose every step counts, as fields of the structure `Model`."""
    return {"parts": 1, "batch": pack("Part", _part(tokens, None))}


def _part(tokens: Tensor, labels: Tensor | None) -> dict[str, Any]:
    return {"rows": tokens.shape[0], "steps": tokens.shape[1], "tokens": tokens, "labels": labels}


def run(function: str, address: int, dtype: torch.dtype, *others: int) -> None:
    """Call a function of the kernel that reads rows; refuse tokens, labels and counts out of range."""
    status = call(function, address, *others, torch.get_num_threads())
    if status == 2:
        raise InputError("a token or a label is outside of its range")
    if status == 3:
        raise InputError(not_exact(dtype))


def propagate(
    model: Model, tokens: Tensor, state: Tensor | None, reset: Tensor | None, hard: bool
) -> tuple[Tensor, Tensor]:
    """Return the scores (B, T, V) after every token, and the last states (B, L, M, D).

    Rows begin with `state` (B, L, M, D), or with h_0, and again with h_0 where `reset` (B, T) is true.
    Gradients reach the trained tensors, unless the maps of routers are hard.
    """
    tensors = [
        tensor if trained else tensor.detach()
        for tensor, trained in zip(model.tensors, model.trained, strict=True)
    ]
    return _Propagate.apply(model, 0.0 if hard else model.temperature, tokens, reset, state, *tensors)


class _Propagate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, model: Model, temperature: float, tokens: Tensor, reset: Tensor | None,
        state: Tensor | None, *tensors: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        tokens, reset, state = contiguous(tokens, reset, state)
        new, fields, depth = tensors[0].new_empty, model.fields, len(model.layers)
        scores = new(*tokens.shape, fields["classes"])
        last = new(tokens.shape[0], depth, fields["order"], fields["width"])
        rows = pack_tokens(tokens)
        _run_scores(model, temperature, **rows, scores=scores, state=state, reset=reset, last=last)
        ctx.model, ctx.temperature = model, temperature
        ctx.save_for_backward(tokens, reset, state, *tensors)
        ctx.set_materialize_grads(False)
        return scores, last

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        refuse_second_derivatives()
        tokens, reset, state, *tensors = ctx.saved_tensors
        g_scores, g_last = contiguous(*grads)
        model: Model = ctx.model
        if g_scores is None:
            g_scores = tensors[0].new_zeros(*tokens.shape, model.fields["classes"])
        sizes = [tensor.numel() for tensor in tensors]
        gradient = tensors[0].new_empty(sum(sizes))
        g_state = None if state is None else torch.zeros_like(state)
        arguments = model.pack(
            **pack_tokens(tokens), temperature=ctx.temperature, whole=WHOLE, span=SPAN,
            state=state, reset=reset, g_scores=g_scores, g_last=g_last, g_state=g_state,
            gradient=gradient,
        )  # fmt: skip
        run_steps([arguments], gradient.dtype)
        needed = ctx.needs_input_grad[5:]
        parts = [
            part.view_as(tensor) if wanted else None
            for part, tensor, wanted in zip(gradient.split(sizes), tensors, needed, strict=True)
        ]
        return None, None, None, None, g_state, *parts


def run_steps(steps: list[Arguments], dtype: torch.dtype) -> None:
    """Take a step of each model, or compute the adjoint of its scores."""
    pointers = array("q", [each.address for each in steps])
    run("steps", pointers.buffer_info()[0], dtype, len(steps))


def _run_scores(model: Model, temperature: float, **fields: Any) -> None:
    arguments = model.pack(**fields, temperature=temperature, whole=SPAN, span=SPAN)
    run("scores", arguments.address, model.tensors[0].dtype)


def row_scores(model: Model, rows: Rows) -> Tensor:
    """Return the scores at all labelled steps of the rows, (labels, classes); maps are hard."""
    fields = pack_rows(rows)
    labelled = sum(int((labels >= 0).sum()) for _, labels in rows)
    scores = model.tensors[0].new_empty(labelled, model.fields["classes"])
    _run_scores(model, 0.0, **fields, scores=scores)
    return scores


def every_score(model: Model, symbols: int, length: int) -> Tensor:
    """Return the scores after every sequence of the first `symbols` tokens; maps are hard.

    They are (symbols^length, classes), the sequences in lexicographic order.
    """
    scores = model.tensors[0].new_empty(symbols**length, model.fields["classes"])
    arguments = model.pack(whole=SPAN, span=SPAN)
    run("every", arguments.address, scores.dtype, symbols, length, scores.data_ptr())
    return scores


class Stepper:
    """A copy of a model's tensors, laid out for single steps, and the state that a step updates."""

    def __init__(self, model: Model, state: Tensor) -> None:
        def own(tensor: Tensor) -> Tensor:
            return tensor.detach().clone(memory_format=torch.contiguous_format)

        self.state = own(state)
        self._model = model._replace(tensors=[own(tensor) for tensor in model.tensors])
        self._token = torch.zeros(1, 1, dtype=torch.int64)
        self._number = self._token.numpy()
        self._scores = state.new_empty(model.fields["classes"])
        self._arguments = self._model.pack(
            **pack_tokens(self._token), whole=1, span=1, state=self.state, last=self.state,
            scores=self._scores,
        )  # fmt: skip
        self._call, self._address = library().csprop_scores, self._arguments.address

    def step(self, token: int) -> Tensor:
        """Return the scores after one more token of the vocabulary."""
        self._number[0, 0] = token
        status = self._call(self._address, 1)
        if status:
            run("scores", self._address, self._scores.dtype)
        return self._scores.clone()
