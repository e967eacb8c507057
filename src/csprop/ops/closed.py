"""The paper's matrix form of one layer.

The paper prints H = Rᵀ A Γ B_x. Taken literally R would be real yet hold e^{iΣθ}, and the product
with Rᵀ would sum over time, where a final state needs only the last row of A. What the recurrence
h_t = α_t h_{t-1} + γ_t e^{iθ_t} z_t does unroll to, from h_0 = 0, is

    h = A Γ (e^{iθ} ⊙ z),    A_{t,s} = α_{s+1} ⋯ α_t for s ≤ t, else 0,    Γ = diag(γ)

for each channel: here A Γ is a (T, T) matrix, and R enters as the element-wise factor e^{iθ}.
It costs O(T²) and is meant for reading and for tests.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def closed_form(
    alpha: Float[Tensor, "B T #D"],
    gamma: Float[Tensor, "B T #D"],
    theta: Float[Tensor, "B T #D"],
    z: Float[Tensor, "B T 2 D"],
) -> Float[Tensor, "B T 2 D"]:
    """All states of a layer whose rotation acts on the input, from h_0 = 0."""
    steps = z.shape[1]
    factors = alpha[:, :, None].expand(-1, -1, steps, -1)  # α_t at (t, s)
    below = torch.ones(steps, steps, dtype=torch.bool, device=z.device).tril(-1)
    decay = torch.where(below[..., None], factors, 1).cumprod(dim=1)  # (B, T, S, D)
    decay = decay * below.logical_or(torch.eye(steps, dtype=torch.bool, device=z.device))[..., None]
    cos, sin = theta.cos(), theta.sin()
    re, im = z[:, :, 0], z[:, :, 1]
    rotated = torch.stack([cos * re - sin * im, sin * re + cos * im], dim=2)
    weights = (decay * gamma[:, None]).expand(-1, -1, -1, z.shape[-1])
    return torch.einsum("btsd,bspd->btpd", weights, rotated)
