"""The `torch` backend: the scan in about 2√T vectorised steps, with its adjoint by hand.

The sequence is cut into N chunks of C ≈ √T steps. All chunks run side by side from a zero state,
which costs C steps; their ends are then chained, which costs N; and every state receives what the
chunk's true start contributes to it:

    h_{n,j} = local_{n,j} + prod_{n,j} · start_n,     prod_{n,j} = a_{n,j} ⋯ a_{n,1}

Adjoint. With g_t = ∂L/∂h_t from outside and λ_t the whole gradient that reaches h_t,

    λ_t = g_t + a_{t+1}ᴴ λ_{t+1},   ∂L/∂u_t = λ_t,   ∂L/∂a_t = λ_t h_{t-1}ᴴ,   ∂L/∂h_0 = a_1ᴴ λ_1,

with ᴴ the conjugate of a number and the transpose of a matrix: the same recurrence run backwards, so
the same function computes it.

Where a modulus passes LIMIT the recurrence saturates and is not linear any more: a batch in which that
happens (long, with |a| > 1) runs step by step. An adjoint beyond GRADIENT_LIMIT does so too, and
saturates there. Testing for it synchronises with a GPU. With p_t = a_t h_{t-1} + u_t and
s_t = max(1, |p_t| / LIMIT), h_t = p_t / s_t, and the gradient passes tangentially only:
∂L/∂p = (λ − ĥ ⟨ĥ, λ⟩) / s, ĥ = h / |h|.

Inside this file a complex number is one complex plane. A transition then has one plane and multiplies
every plane of a state, or it has M × M planes and is a matrix.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from csprop.ops.scan import GRADIENT_LIMIT, LIMIT, scan_by_steps


def scan(
    a: Float[Tensor, "B T *P #D"],
    u: Float[Tensor, "B T M D"],
    h0: Float[Tensor, "B M D"],
    reset: Bool[Tensor, "B T"] | None,
) -> Float[Tensor, "B T M D"]:
    number, entering, start = _numbers(a, u, h0)
    h = _linear(forgetful(number, reset), entering, start)
    return _planes(h) if _within(h, LIMIT) else scan_by_steps(a, u, h0, reset)


def adjoint(
    g_h: Float[Tensor, "B T M D"],
    a: Float[Tensor, "B T *P #D"],
    u: Float[Tensor, "B T M D"],
    h0: Float[Tensor, "B M D"],
    h: Float[Tensor, "B T M D"],
    reset: Bool[Tensor, "B T"] | None,
) -> tuple[Float[Tensor, "B T *P #D"], Float[Tensor, "B T M D"], Float[Tensor, "B M D"]]:
    """Return the gradients of a, u and h0."""
    a, g, u, h0, h = _numbers(a, g_h, u, h0, h)
    kept = forgetful(a, reset)
    before = forgetful(torch.cat([h0[:, None], h[:, :-1]], dim=1), reset)
    overshoot = None if _within(h, LIMIT) else _overshoot(_recur(u, kept, before), LIMIT)
    adjoint = None
    if overshoot is None:
        following = padded(_adjoint(kept[:, 1:]), 1)  # a_{t+1}, and 0 after the end
        adjoint = _linear(following.flip(1), g.flip(1), torch.zeros_like(h0)).flip(1)
    if adjoint is None or not _within(adjoint, GRADIENT_LIMIT):
        adjoint = _saturating_adjoint(kept, h, overshoot, g)
    grad_h0 = _recur(torch.zeros_like(h0), _adjoint(kept[:, 0]), adjoint[:, 0])
    outer = adjoint[:, :, :, None] * before[:, :, None] if _is_matrix(a) else adjoint * before.conj()
    return _planes(outer.sum_to_size(a.shape)), _planes(adjoint), _planes(grad_h0)


def _numbers(a: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
    """As they are, where a is real; else as complex numbers, in one plane."""
    if a.ndim == 5 or a.shape[2] == 1:
        return a, *states
    return tuple(torch.complex(x[..., :1, :], x[..., 1:, :]) for x in (a, *states))


def _planes(h: Tensor) -> Tensor:
    return torch.cat([h.real, h.imag], dim=-2) if h.is_complex() else h


def _is_matrix(a: Tensor) -> bool:
    return a.shape[-2] > 1


def _adjoint(a: Tensor) -> Tensor:
    return a.transpose(-3, -2) if _is_matrix(a) else a.conj()


def _recur(u: Tensor, a: Tensor, h: Tensor, out: Tensor | None = None) -> Tensor:
    """a · h + u. Matrices go column by column: torch's own product of many small ones takes longer."""
    if not _is_matrix(a):
        return torch.addcmul(u, a, h, out=out)
    for j in range(a.shape[-2]):
        u = torch.addcmul(u, a[..., j, :], h[..., j, None, :], out=out)
    return u


def _product(a: Tensor, b: Tensor, out: Tensor) -> None:
    """a · b of two transitions, where each column of a matrix b is like a state."""
    if _is_matrix(a):
        _recur(a.new_zeros(()), a, b.movedim(-2, 0), out=out.movedim(-2, 0))
    else:
        torch.mul(a, b, out=out)


def forgetful(x: Tensor, reset: Tensor | None) -> Tensor:
    """With 0 at the steps that begin anew."""
    return x if reset is None else x.masked_fill(reset[(..., *[None] * (x.ndim - 2))], 0)


def padded(x: Tensor, steps: int) -> Tensor:
    """With so many zeros after its steps."""
    return F.pad(x, (0, 0) * (x.ndim - 2) + (0, steps))


def _linear(a: Tensor, u: Tensor, h0: Tensor) -> Tensor:
    """The recurrence without saturation: may overflow, which the caller looks for."""
    steps = u.shape[1]
    length = max(1, math.isqrt(steps - 1) + 1)
    chunks = -(-steps // length)
    a, u = (padded(x, chunks * length - steps).unflatten(1, (chunks, length)) for x in (a, u))
    local, prod = torch.empty_like(u), torch.empty_like(a)
    local[:, :, 0], prod[:, :, 0] = u[:, :, 0], a[:, :, 0]
    for j in range(1, length):
        _recur(u[:, :, j], a[:, :, j], local[:, :, j - 1], out=local[:, :, j])
        _product(a[:, :, j], prod[:, :, j - 1], out=prod[:, :, j])
    start = torch.empty_like(u[:, :, 0])
    start[:, 0] = h0
    for n in range(1, chunks):
        _recur(local[:, n - 1, -1], prod[:, n - 1, -1], start[:, n - 1], out=start[:, n])
    return _recur(local, prod, start[:, :, None]).flatten(1, 2)[:, :steps]


def _saturating_adjoint(a: Tensor, h: Tensor, overshoot: Tensor | None, grad: Tensor) -> Tensor:
    adjoint, nothing = torch.empty_like(h), torch.zeros_like(h[:, 0])
    carried = nothing
    for t in range(h.shape[1] - 1, -1, -1):
        whole = grad[:, t] + carried
        if overshoot is not None:
            unit = h[:, t] / LIMIT
            inner = unit.conj() * whole
            radial = inner.real if h.is_complex() else inner.sum(-2, keepdim=True)
            projected = (whole - unit * radial) / overshoot[:, t]
            whole = torch.where(overshoot[:, t] > 1, projected, whole)
        adjoint[:, t] = whole / _overshoot(whole, GRADIENT_LIMIT)
        carried = _recur(nothing, _adjoint(a[:, t]), adjoint[:, t])
    return adjoint


def _within(h: Tensor, limit: float) -> bool:
    """Return True if all moduli surely are within the limit; a NaN is not."""
    numbers = torch.view_as_real(h) if h.is_complex() else h
    return bool((numbers.abs() <= limit / (2 if h.is_complex() else h.shape[-2])).all())


def _overshoot(h: Tensor, limit: float) -> Tensor:
    """max(1, |h| / limit), over the planes."""
    scaled = h / limit
    modulus = scaled.abs() if h.is_complex() else scaled.square().sum(dim=-2, keepdim=True).sqrt()
    return modulus.clamp(min=1)
