"""The `torch` backend: the scan in about 2√T vectorised steps, with its adjoint by hand.

The sequence is cut into N chunks of C ≈ √T steps. All chunks run side by side from a zero state,
which costs C steps; their ends are then chained, which costs N; and every state receives what the
chunk's true start contributes to it:

    h_{n,j} = local_{n,j} + prod_{n,j} · start_n,     prod_{n,j} = a_{n,1} ⋯ a_{n,j}

Adjoint. With g_t = ∂L/∂h_t from outside and λ_t the whole gradient that reaches h_t,

    λ_t = g_t + conj(a_{t+1}) λ_{t+1},   ∂L/∂u_t = λ_t,   ∂L/∂a_t = conj(h_{t-1}) λ_t,
    ∂L/∂h_0 = conj(a_1) λ_1,

which is the same recurrence run backwards, so the same function computes it.

Where a modulus passes LIMIT the recurrence saturates and is no longer linear: a batch in which that
happens (long, with |a| > 1) runs step by step. An adjoint beyond GRADIENT_LIMIT does so too, and
saturates there. With p_t = a_t h_{t-1} + u_t and s_t = max(1, |p_t| / LIMIT), h_t =
p_t / s_t, and the gradient passes tangentially only: ∂L/∂p = (λ − ĥ Re(conj(ĥ) λ)) / s, ĥ = h / |h|.

Inside this file a state is either two real planes (real a) or one complex plane (complex a), so that
`a * h + u` means the right thing in both cases.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from csprop.ops.planes import GRADIENT_LIMIT, LIMIT


def scan(
    a: Float[Tensor, "B T P #D"],
    u: Float[Tensor, "B T 2 D"],
    h0: Float[Tensor, "B 2 D"],
    reset: Bool[Tensor, "B T"] | None,
) -> Float[Tensor, "B T 2 D"]:
    a, u, h0 = _numbers(a, u, h0)
    a = _forgetful(a, reset)
    h = _linear(a, u, h0)
    return _planes(h if _within(h, LIMIT) else _saturating(a, u, h0))


def adjoint(
    g_h: Float[Tensor, "B T 2 D"],
    a: Float[Tensor, "B T P #D"],
    u: Float[Tensor, "B T 2 D"],
    h0: Float[Tensor, "B 2 D"],
    h: Float[Tensor, "B T 2 D"],
    reset: Bool[Tensor, "B T"] | None,
) -> tuple[Float[Tensor, "B T P #D"], Float[Tensor, "B T 2 D"], Float[Tensor, "B 2 D"]]:
    """The gradients of a, u and h0."""
    a, g, u, h0, h = _numbers(a, g_h, u, h0, h)
    kept = _forgetful(a, reset)
    before = _forgetful(torch.cat([h0[:, None], h[:, :-1]], dim=1), reset)
    overshoot = None if _within(h, LIMIT) else _overshoot(kept * before + u, LIMIT, dim=2)
    adjoint = None
    if overshoot is None:
        following = F.pad(kept[:, 1:].conj(), (0, 0, 0, 0, 0, 1))  # a_{t+1}, and 0 after the end
        adjoint = _linear(following.flip(1), g.flip(1), torch.zeros_like(h0)).flip(1)
    if adjoint is None or not _within(adjoint, GRADIENT_LIMIT):
        adjoint = _saturating_adjoint(kept, h, overshoot, g)
    grad_a = (before.conj() * adjoint).sum_to_size(a.shape)
    return _planes(grad_a), _planes(adjoint), _planes(kept[:, 0].conj() * adjoint[:, 0])


def _numbers(a: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """As they are, where a is real; else as complex numbers, in one plane."""
    if a.shape[2] == 1:
        return a, *others
    return tuple(torch.complex(x[..., :1, :], x[..., 1:, :]) for x in (a, *others))


def _planes(h: Tensor) -> Tensor:
    return torch.cat([h.real, h.imag], dim=-2) if h.is_complex() else h


def _forgetful(a: Tensor, reset: Tensor | None) -> Tensor:
    return a if reset is None else a.masked_fill(reset[:, :, None, None], 0)


def _linear(a: Tensor, u: Tensor, h0: Tensor) -> Tensor:
    """The recurrence without saturation: may overflow, which the caller looks for."""
    steps = u.shape[1]
    length = max(1, math.isqrt(steps - 1) + 1)
    chunks = -(-steps // length)
    padding = (0, 0, 0, 0, 0, chunks * length - steps)
    a = F.pad(a, padding).unflatten(1, (chunks, length))
    u = F.pad(u, padding).unflatten(1, (chunks, length))
    local, prod = torch.empty_like(u), torch.empty_like(a)
    local[:, :, 0], prod[:, :, 0] = u[:, :, 0], a[:, :, 0]
    for j in range(1, length):
        torch.addcmul(u[:, :, j], a[:, :, j], local[:, :, j - 1], out=local[:, :, j])
        torch.mul(a[:, :, j], prod[:, :, j - 1], out=prod[:, :, j])
    start = torch.empty_like(u[:, :, 0])
    start[:, 0] = h0
    for n in range(1, chunks):
        torch.addcmul(local[:, n - 1, -1], prod[:, n - 1, -1], start[:, n - 1], out=start[:, n])
    return torch.addcmul(local, prod, start[:, :, None]).flatten(1, 2)[:, :steps]


def _saturating(a: Tensor, u: Tensor, h0: Tensor) -> Tensor:
    states, h = [], h0
    for a_t, u_t in zip(a.unbind(1), u.unbind(1), strict=True):
        h = torch.addcmul(u_t, a_t, h)
        h = h / _overshoot(h, LIMIT)
        states.append(h)
    return torch.stack(states, 1)


def _saturating_adjoint(a: Tensor, h: Tensor, overshoot: Tensor | None, grad: Tensor) -> Tensor:
    adjoint, carried = torch.empty_like(h), torch.zeros_like(h[:, 0])
    for t in range(h.shape[1] - 1, -1, -1):
        whole = grad[:, t] + carried
        if overshoot is not None:
            unit = h[:, t] / LIMIT
            inner = unit.conj() * whole
            radial = inner.real if h.is_complex() else inner.sum(1, keepdim=True)
            projected = (whole - unit * radial) / overshoot[:, t]
            whole = torch.where(overshoot[:, t] > 1, projected, whole)
        adjoint[:, t] = whole / _overshoot(whole, GRADIENT_LIMIT)
        carried = a[:, t].conj() * adjoint[:, t]
    return adjoint


def _within(h: Tensor, limit: float) -> bool:
    """Whether all moduli surely are; a NaN is not."""
    planes = torch.view_as_real(h) if h.is_complex() else h
    return bool((planes.abs() <= limit / 2).all())


def _overshoot(h: Tensor, limit: float, dim: int = 1) -> Tensor:
    """max(1, |h| / limit); `dim` has the planes of a number kept as two."""
    scaled = h / limit
    modulus = scaled.abs() if h.is_complex() else scaled.square().sum(dim=dim, keepdim=True).sqrt()
    return modulus.clamp(min=1)
