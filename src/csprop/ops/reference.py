"""The specification of the scan: a plain loop over time, differentiated by autograd.

a    the transition: α_t (one plane, real) or α_t e^{iθ_t} (two planes, complex)
u    what enters: γ_t e^{iθ_t} z_t, γ_t z_t or (1 − ρ_t) v_t
h    the state, a complex number per channel kept as a real and an imaginary plane
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from csprop.ops.planes import bounded, saturate, turn


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
        h = activation(saturate(bounded(turn(a[:, t], h) + u[:, t])))
        states.append(h)
    return torch.stack(states, dim=1) if states else u
