"""Rotations of SO(m) from m(m − 1)/2 angles: Q = exp(A − Aᵀ), A the strictly upper triangle of them.

    m = 3    Rodrigues' formula
    m = 4    a pair of unit quaternions: Q h = p h q̄, because A − Aᵀ is a sum of two commuting parts
    else     the matrix exponential

(m = 2 is e^{iθ}, which the block keeps as a complex number.)
"""

import math
from functools import cache
from itertools import combinations

import torch
from jaxtyping import Float
from torch import Tensor

from csprop.ops.backends import exporting
from csprop.ops.checks import traced
from csprop.ops.scan import wide

ANGLE_LIMIT = 2.0**10
"""The largest angle. Where weights are huge, the rounding of W z + b is many turns: a product of one
row would turn a state elsewhere than a product of many, a stream elsewhere than a batch. At this limit
rounding moves an angle of float32 by a ten-thousandth."""

TERMS = 18
"""Terms of Taylor's series for a matrix of norm 1; the rest is below the rounding of float64."""


def count_angles(order: int) -> int:
    """Return the number of angles of a rotation."""
    return order * (order - 1) // 2


def rotate(angles: Float[Tensor, "*batch K E"], order: int) -> Float[Tensor, "*batch M M E"]:
    """Return the rotation matrices of some angles."""
    if order == 3:
        return _rodrigues(_combined(angles, skew_basis(3)))
    if order == 4:
        left, right = (
            _quaternion(_combined(angles, part), units)
            for part, units in zip(SIDES, QUATERNIONS, strict=True)
        )
        return _product(left, right)
    generator = _combined(angles, skew_basis(order)).movedim(-1, -3)
    exponential = _squared if exporting() else torch.linalg.matrix_exp
    return exponential(generator).movedim(-3, -1)


def _squared(generator: Float[Tensor, "*batch E M M"]) -> Float[Tensor, "*batch E M M"]:
    """Return the matrix exponential, which ONNX lacks, by Taylor's series and repeated squaring."""
    order = generator.shape[-1]
    most = math.ceil(math.log2(order * ANGLE_LIMIT))
    norm = generator.abs().sum(dim=-1, keepdim=True).amax(dim=-2, keepdim=True)
    halvings = norm.clamp(min=1).log2().ceil()
    part = generator * torch.exp2(-halvings)
    identity = torch.eye(order, dtype=part.dtype, device=part.device)
    total = identity
    for degree in range(TERMS, 0, -1):
        total = identity + part @ total / degree
    for number in range(most):
        total = torch.where(number < halvings, total @ total, total)
    return total


_BASES: dict[int, Tensor] = {}  # torch.compile warns about functools.cache


def skew_basis(order: int) -> Float[Tensor, "K M M"]:
    """Return the generator of each angle: planes (0, 1), (0, 2), …; (0, 1) turns 0 towards 1."""
    if order not in _BASES:
        basis = torch.zeros(count_angles(order), order, order, device="cpu")
        for number, (i, j) in enumerate(combinations(range(order), 2)):
            basis[number, j, i], basis[number, i, j] = 1.0, -1.0
        _BASES[order] = basis
    return _BASES[order]


def _quaternions() -> Float[Tensor, "2 3 4 4"]:
    """Return multiplication by i, j, k from the left and from the right, on (1, i, j, k)."""
    with torch.device("cpu"):
        i = torch.tensor([[0.0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 0, -1], [0, 0, 1, 0]])
        j = torch.tensor([[0.0, 0, -1, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, -1, 0, 0]])
        left = torch.stack([i, j, i @ j])
        conjugate = torch.diag(torch.tensor([1.0, -1, -1, -1]))
        return torch.stack([left, -conjugate @ left @ conjugate])


QUATERNIONS = _quaternions()
SIDES = skew_basis(4).flatten(1) @ QUATERNIONS.flatten(2).transpose(1, 2) / 4
"""The share of each left and each right quaternion in the generator of each angle."""


@cache
def _copied(basis: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    with torch.inference_mode(False):  # tensors made inside it could take no part in a gradient
        return basis.to(device, dtype)


def _beside(basis: Tensor, like: Tensor) -> Tensor:
    """Return a constant on the device of a tensor; it is copied once, unless torch traces."""
    if like.is_cpu or traced(like):
        return basis.to(like)
    return _copied(basis, like.device, like.dtype)


def _combined(angles: Tensor, basis: Tensor) -> Tensor:
    """Return Σ basis[k] · angles[k], with the channels last; in float32 also under autocast."""
    summed = wide(angles.movedim(-2, -1) @ _beside(basis, angles).flatten(1))  # (…, E, entries)
    return summed.unflatten(-1, basis.shape[1:]).movedim(angles.ndim - 2, -1)


def _product(p: Tensor, q: Tensor) -> Tensor:
    return (p[..., :, :, None, :] * q[..., None, :, :, :]).sum(dim=-3)


def _identity(order: int, like: Tensor) -> Tensor:
    return torch.eye(order, dtype=like.dtype, device=like.device)[..., None]


def _rodrigues(k: Float[Tensor, "*batch 3 3 E"]) -> Float[Tensor, "*batch 3 3 E"]:
    """Return I + sin θ / θ · K + (1 − cos θ) / θ² · K²."""
    squared = (k.square().sum(dim=(-3, -2), keepdim=True)) / 2  # θ²
    half = _sinc(squared / 4)
    return _identity(3, k) + _sinc(squared) * k + half.square() / 2 * _product(k, k)


def _quaternion(vector: Float[Tensor, "*batch 3 E"], units: Tensor) -> Float[Tensor, "*batch 4 4 E"]:
    """Return exp of a combination of three anticommuting units with square −1."""
    squared = vector.square().sum(dim=-2)[..., None, None, :]
    cosine = 1 - squared / 2 * _sinc(squared / 4).square()
    return cosine * _identity(4, vector) + _sinc(squared) * _combined(vector, units)


def _sinc(squared: Tensor) -> Tensor:
    """Return sin θ / θ as a smooth function of θ², also at 0."""
    small = squared < 1e-3
    theta = torch.where(small, 1.0, squared).sqrt()
    return torch.where(small, 1 - squared / 6 * (1 - squared / 20), theta.sin() / theta)
