"""Counts: sums of whole numbers that must be exact, and are refused where rounding could change one.

A floating-point number holds every whole number up to 2^p exactly, where p is the number of its binary
digits: 2^24 in float32, 2^53 in float64.

On a GPU, refusing synchronises: a layer that counts waits for its counts, once in a pass. NaN in place
of a wrong count would need no waiting, but a layer above that chooses could hide it.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from csprop.errors import InputError
from csprop.ops.backends import exporting
from csprop.ops.checks import traced


def whole(x: Tensor) -> Tensor:
    """Round x to whole numbers, halves to even ones, with the gradient of x."""
    return x.round().detach() + (x - x.detach())


def most(dtype: torch.dtype) -> int:
    """Return the largest count that numbers of a type hold exactly, with all smaller ones."""
    return round(2 / torch.finfo(dtype).eps)


def exact(
    counts: Float[Tensor, "B T D"], before: Float[Tensor, "B T D"], added: Float[Tensor, "B T D"]
) -> Float[Tensor, "B T D"]:
    """Return the counts, if each is exactly the one before it and what was added to it.

    Otherwise raise InputError; an ONNX graph, which cannot, has NaN there.
    """
    if exporting():
        return torch.where(_sound(counts, before, added), counts, torch.nan)
    check = check_counts
    if traced(counts):
        from csprop.ops.operators import exact_counts as check
    checked = check(counts.detach(), before.detach(), added.detach())
    return checked + (counts - counts.detach())  # 0, with a gradient


def check_counts(counts: Tensor, before: Tensor, added: Tensor) -> Tensor:
    """Return a copy of the counts; raise InputError if one is not exact."""
    if not bool(_sound(counts, before, added).all()):
        raise InputError(not_exact(counts.dtype))
    return counts.clone()


def _sound(counts: Tensor, before: Tensor, added: Tensor) -> Tensor:
    largest = torch.maximum(torch.maximum(counts.abs(), before.abs()), added.abs())
    # Not `before + added`, which would be rounded as the count was.
    return (largest <= most(counts.dtype)) & (counts - before == added)


def not_exact(dtype: torch.dtype) -> str:
    """Return the message about a count that a type of numbers does not hold."""
    name, limit = str(dtype).removeprefix("torch."), most(dtype)
    return f"a count is not exact: {name} holds whole numbers up to ±{limit:,}; give shorter sequences"
