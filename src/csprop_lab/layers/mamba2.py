"""Mamba-2: state spaces with one decay a head, computed as masked products of matrices."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from csprop_lab.layers.parts import ShortConvolution, inverse_softplus, log_steps

STATE, HEAD, CHUNK = 32, 16, 64


class Mamba2(nn.Module):
    """The state-space dual layer SSD in its block (Dao and Gu, 2024).

    (z, x, B, C, δ) = W_in u; (x, B, C) = SiLU(conv(x, B, C)); Δ = softplus(δ + b_Δ); in each head
    h_t = exp(Δ_t A) h_{t−1} + Δ_t B_t x_tᵀ and y_t = C_tᵀ h_t + D x_t, where A and D are numbers; the
    output is W_out RMSNorm(y ⊙ SiLU(z)).

    As published: twice the width inside, B and C shared by all heads, a convolution over 4 steps, −A
    from 1 to 16, Δ from 0.001 to 0.1 and D = 1 at first. Heads have 16 features and 32 states instead
    of 64 and 128, as the width is small. Chunks of 64 steps are products of matrices, and the state
    goes from one to the next.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = 2 * width
        heads = inner // HEAD
        self.parts = [inner, inner + 2 * STATE, heads]
        self.enter = nn.Linear(width, sum(self.parts), bias=False)
        self.convolution = ShortConvolution(inner + 2 * STATE)
        self.step_bias = nn.Parameter(inverse_softplus(log_steps(heads).exp()))
        self.log_a = nn.Parameter(torch.empty(heads).uniform_(1, 16).log())
        self.skip = nn.Parameter(torch.ones(heads))
        self.norm = nn.RMSNorm(inner, eps=1e-5)
        self.out = nn.Linear(inner, width, bias=False)

    def forward(self, x: Float[Tensor, "B T W"]) -> Float[Tensor, "B T W"]:
        gate, x, step = self.enter(x).split(self.parts, dim=2)
        inner = self.parts[0]
        x, b, c = F.silu(self.convolution(x)).split([inner, STATE, STATE], dim=2)
        x, step = x.unflatten(2, (-1, HEAD)), F.softplus(step + self.step_bias)
        y = dual(step * -self.log_a.exp(), b, c, x * step[..., None])
        y = torch.addcmul(y, x, self.skip[:, None])
        return self.out(self.norm(y.flatten(2) * F.silu(gate)))


def dual(
    log_decay: Float[Tensor, "B T H"],
    b: Float[Tensor, "B T N"],
    c: Float[Tensor, "B T N"],
    x: Float[Tensor, "B T H P"],
) -> Float[Tensor, "B T H P"]:
    """y_t = C_tᵀ h_t, where h_t = a_t h_{t−1} + B_t x_tᵀ in each head, from the logarithms of a ≤ 1."""
    steps = x.shape[1]
    later = torch.ones(min(steps, CHUNK), min(steps, CHUNK), dtype=torch.bool, device=x.device).triu(1)
    state, outputs = None, []
    for start in range(0, steps, CHUNK):
        now = slice(start, start + CHUNK)
        keys, queries, values = b[:, now], c[:, now], x[:, now].transpose(1, 2)
        total = log_decay[:, now].mT.cumsum(2)  # (B, H, chunk)
        size = total.shape[2]
        between = total[..., None] - total[:, :, None]
        weights = between.masked_fill(later[:size, :size], -torch.inf).exp()
        y = (queries @ keys.mT)[:, None] * weights @ values
        if state is not None:
            y = torch.addcmul(y, total.exp()[..., None], queries[:, None] @ state)
        outputs.append(y)
        if start + CHUNK < steps:
            last = total[:, :, -1:]
            grown = keys.mT[:, None] @ (values * (last - total).exp()[..., None])
            state = grown if state is None else torch.addcmul(grown, last.exp()[..., None], state)
    return torch.cat(outputs, dim=2).transpose(1, 2)
