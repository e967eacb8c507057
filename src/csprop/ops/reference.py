"""The specification of the scan: a plain loop over time, differentiated by autograd.

a    the transition: α_t (one plane, real) or α_t e^{iθ_t} (two planes, complex)
u    what enters: γ_t e^{iθ_t} z_t, γ_t z_t or (1 − ρ_t) v_t
h    the state, a complex number per channel kept as a real and an imaginary plane
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

LIMIT = 2.0**60
"""No modulus grows past this: a larger state is scaled back to it and keeps its phase.

2^60 lies far above what float32 can still add a number of size one to, and low enough that its
square, and its product with any sensible transition, stay finite.
"""


def saturate(h: Float[Tensor, "*batch 2 D"]) -> Float[Tensor, "*batch 2 D"]:
    """Scale moduli above LIMIT back to LIMIT; the phase, and everything smaller, is unchanged."""
    overshoot = torch.linalg.vector_norm(h / LIMIT, dim=-2, keepdim=True)
    return h / overshoot.clamp(min=1)


def turn(a: Float[Tensor, "*batch P #D"], h: Float[Tensor, "*batch 2 D"]) -> Float[Tensor, "..."]:
    """a · h for a real transition (P = 1) or a complex one (P = 2)."""
    if a.shape[-2] == 1:
        return a * h
    re, im = a[..., :1, :], a[..., 1:, :]
    return re * h + im * torch.cat([-h[..., 1:, :], h[..., :1, :]], dim=-2)


def scan(
    a: Float[Tensor, "B T P #D"],
    u: Float[Tensor, "B T 2 D"],
    h0: Float[Tensor, "B 2 D"],
    reset: Bool[Tensor, "B T"] | None = None,
    activation: Callable[[Tensor], Tensor] = lambda h: h,
) -> Float[Tensor, "B T 2 D"]:
    """h_t = activation(saturate(a_t · h_{t-1} + u_t)); a reset forgets h_{t-1} first.

    The activation is for the paper's step-wise SiLU, which no parallel backend can do.
    """
    h, states = h0, []
    for t in range(u.shape[1]):
        if reset is not None:
            h = h.masked_fill(reset[:, t, None, None], 0)
        h = activation(saturate(turn(a[:, t], h) + u[:, t]))
        states.append(h)
    return torch.stack(states, dim=1) if states else u
