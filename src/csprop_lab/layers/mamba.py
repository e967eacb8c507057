"""Mamba: a state-space layer whose steps, inputs and readouts depend on the token."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from csprop_lab.layers.parts import ShortConvolution, inverse_softplus, log_steps

STATE = 16


class Mamba(nn.Module):
    """The selective state space S6 in its block (Gu and Dao, 2024).

    (x, z) = W_in u; x = SiLU(conv(x)); (δ, B, C) = W_x x; Δ = softplus(W_Δ δ + b_Δ);
    h_t = exp(Δ_t A) h_{t−1} + Δ_t B_t x_t; y_t = C_t h_t + D x_t; the output is W_out (y ⊙ SiLU(z)).

    As published: twice the width inside, 16 states a channel, a convolution over 4 steps, Δ through a
    rank of width / 16, and at first A = −1, …, −16, D = 1 and Δ from 0.001 to 0.1. Nothing differs.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        inner, self.rank = 2 * width, math.ceil(width / 16)
        self.enter = nn.Linear(width, 2 * inner, bias=False)
        self.convolution = ShortConvolution(inner)
        self.select = nn.Linear(inner, self.rank + 2 * STATE, bias=False)
        self.step = nn.Linear(self.rank, inner)
        self.log_a = nn.Parameter(torch.arange(1.0, STATE + 1).log()[:, None].repeat(1, inner))
        self.skip = nn.Parameter(torch.ones(inner))
        self.out = nn.Linear(inner, width, bias=False)
        with torch.no_grad():
            nn.init.uniform_(self.step.weight, -(self.rank**-0.5), self.rank**-0.5)
            self.step.bias.copy_(inverse_softplus(log_steps(inner).exp()))

    def forward(self, x: Float[Tensor, "B T W"]) -> Float[Tensor, "B T W"]:
        x, gate = self.enter(x).chunk(2, dim=2)
        x = F.silu(self.convolution(x))
        step, b, c = self.select(x).split([self.rank, STATE, STATE], dim=2)
        y = selective_scan(F.softplus(self.step(step)), -self.log_a.exp(), b, c, x)
        return self.out(torch.addcmul(y, self.skip, x) * F.silu(gate))


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
