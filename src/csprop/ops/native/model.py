"""A model as the kernel reads it, and the rows that it is given."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from csprop.errors import InputError
from csprop.ops.counts import not_exact
from csprop.ops.native.layout import Arguments
from csprop.ops.native.library import call, pack

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

    @property
    def wide(self) -> bool:
        return self.tensors[0].dtype is torch.float64

    def pack(self, weights: list[dict[str, Any]] | None = None, **fields: Any) -> Arguments:
        """Lay out the model with more fields; `weights` has the fields of each tensor's `Weight`."""
        if weights is None:
            weights = [{"size": each.numel(), "value": each.data_ptr()} for each in self.tensors]
        own = {
            "wide": self.wide, "depth": len(self.layers), "tensors": len(self.tensors),
            "first_of_rows": self.first_of_rows, "layers": pack("Layer", *self.layers),
            "weights": pack("Weight", *weights),
        }  # fmt: skip
        return pack("Model", {**own, **self.fields, **fields})


def pack_rows(rows: Rows) -> dict[str, Any]:
    """Lay out rows as fields of the structure `Model`.

    Raises:
        InputError: tokens or labels are not CPU tensors of one shape (B, T), int64.
    """
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
    """Call a function of the kernel that reads rows.

    Raises:
        InputError: a token or a label is outside of its range, or a count is not exact.
        MemoryError: there is not enough memory.
    """
    status = call(function, address, *others, torch.get_num_threads())
    if status == 2:
        raise InputError("a token or a label is outside of its range")
    if status == 3:
        raise InputError(not_exact(dtype))
