"""The selective scan of Mamba."""

import torch
from jaxtyping import Float
from torch import Tensor


def selective_scan(
    delta: Float[Tensor, "B T D"],
    a: Float[Tensor, "N D"],
    b: Float[Tensor, "B T N"],
    c: Float[Tensor, "B T N"],
    x: Float[Tensor, "B T D"],
) -> Float[Tensor, "B T D"]:
    """y_t = C_t h_t, where h_t = exp(Δ_t A) h_{t−1} + Δ_t B_t x_t and every channel has N states.

    A loop over time holds one state at a time, as all states at once would be N times the input.
    """
    state, read = x.new_zeros(len(x), *a.shape), []
    steps = (part.unbind(1) for part in (delta[:, :, None], b[..., None], c[:, :, None], delta * x))
    for delta_t, b_t, c_t, u_t in zip(*steps, strict=True):
        state = torch.addcmul((delta_t * a).exp() * state, b_t, u_t[:, None])
        read.append((c_t @ state)[:, 0])
    return torch.stack(read, dim=1)
