"""The specification of the scan: a plain loop over time, differentiated by autograd.

a    the transition: α_t (one plane, real), α_t e^{iθ_t} (two planes, complex) or α_t R_t (M × M planes)
u    what enters: γ_t e^{iθ_t} z_t, γ_t z_t or (1 − ρ_t) v_t
h    the state, M numbers per channel; two are the real and imaginary plane of a complex one
"""

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor

from csprop.ops.over_time import over_time
from csprop.ops.planes import bounded, saturate, turn


def scan(
    a: Float[Tensor, "B T *P #D"],
    u: Float[Tensor, "B T M D"],
    h0: Float[Tensor, "B M D"],
    reset: Bool[Tensor, "B T"] | None = None,
    activation: Callable[[Tensor], Tensor] = lambda h: h,
) -> Float[Tensor, "B T M D"]:
    """h_t = activation(saturate(a_t · h_{t-1} + u_t)); a reset forgets h_{t-1} first.

    The activation is for the paper's step-wise SiLU, which no parallel backend can do.
    """

    def step(h: Tensor, a: Tensor, u: Tensor, reset: Tensor | None) -> Tensor:
        if reset is not None:
            h = h.masked_fill(reset[:, None, None], 0)
        return activation(saturate(bounded(turn(a, h) + u)))

    return over_time(step, h0, a, u, reset)
