"""Counts: sums of whole numbers that must be exact, and are refused where rounding could change one.

A floating-point number holds every whole number up to 2^p exactly, where p is the number of its binary
digits: 2^24 in float32, 2^53 in float64.

On a GPU, refusing synchronises: a layer that counts waits for its counts, once in a pass. NaN in place
of a wrong count would need no waiting, but a layer above that chooses could hide it.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from csprop.errors import InputError
from csprop.ops.backends import exporting
from csprop.ops.operators import folded, register


def whole(x: Tensor) -> Tensor:
    """Round x to whole numbers, halves to even ones, with the gradient of x."""
    return x.round().detach() + (x - x.detach())


def most(dtype: torch.dtype) -> int:
    """The largest count that numbers of a type hold exactly, with all smaller ones."""
    return round(2 / torch.finfo(dtype).eps)


def exact(
    counts: Float[Tensor, "B T D"], before: Float[Tensor, "B T D"], added: Float[Tensor, "B T D"]
) -> Float[Tensor, "B T D"]:
    """The counts, if each is exactly the one before it and what was added to it.

    Raises:
        InputError: one is not, or is beyond what its type of numbers holds. An ONNX graph, which
            cannot raise it, has NaN there.
    """
    if exporting():
        limit = most(counts.dtype)
        within = torch.maximum(torch.maximum(counts.abs(), before.abs()), added.abs()) <= limit
        return torch.where(within & (counts - before == added), counts, torch.nan)
    checked = _exact(counts.detach(), before.detach(), added.detach())
    return checked + (counts - counts.detach())  # 0, with a gradient


def _checked(counts: Tensor, before: Tensor, added: Tensor) -> Tensor:
    limit = most(counts.dtype)
    # Not `before + added`, which would be rounded as the count was.
    sound = counts - before == added
    for each in (counts, before, added):
        sound &= each.abs() <= limit
    if not bool(sound.all()):
        raise InputError(not_exact(counts.dtype))
    return counts.clone()


def not_exact(dtype: torch.dtype) -> str:
    """Return the message about a count that a type of numbers does not hold."""
    name, limit = str(dtype).removeprefix("torch."), most(dtype)
    return f"a count is not exact: {name} holds whole numbers up to ±{limit:,}; give shorter sequences"


_exact = register(
    "exact_counts",
    "(Tensor counts, Tensor before, Tensor added) -> Tensor",
    _checked,
    lambda counts, before, added: torch.empty_like(counts),
)


def _mapped(info: Any, in_dims: tuple[int | None, ...], *given: Tensor) -> tuple[Tensor, int]:
    size = info.batch_size
    counts = _exact(*(folded(value, dim, size) for value, dim in zip(given, in_dims, strict=True)))
    return counts.unflatten(0, (size, -1)), 0


torch.library.register_vmap(_exact, _mapped)
