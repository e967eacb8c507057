"""Gated DeltaNet: the delta rule, with a gate that forgets."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from csprop_lab.layers.delta_rule import delta_rule
from csprop_lab.layers.parts import ShortConvolution, inverse_softplus, log_steps

HEADS = 4


class GatedDeltaNet(nn.Module):
    """The gated delta rule of Yang et al.

    S_t = α_t S_{t−1} (I − β_t k_t k_tᵀ) + β_t v_t k_tᵀ, read as S_t q_t / √d, in four heads. q, k and v
    pass a causal convolution over four steps and SiLU; q and k have norm 1; β = σ(·), and
    α = exp(−exp(A) softplus(· + dt)) as in Mamba-2. What is read is divided by its root mean square in
    each head, multiplied by a weight and by SiLU of a gate, and projected. A and dt begin as published,
    the projections and convolutions as torch's. Keys and values are as wide as the input, where the
    published layer has 3/4 and 3/2 of it.
    """

    updates = 1
    """Steps of the delta rule for a token."""
    reach = 1.0
    """The least upper bound of β."""

    def __init__(self, width: int) -> None:
        super().__init__()
        mixed = width * (1 + 2 * self.updates)  # q, and for each update k and v
        self.sizes = [mixed, width, HEADS * self.updates, HEADS]
        self.project = nn.Linear(width, sum(self.sizes), bias=False)
        self.convolution = ShortConvolution(mixed, bias=False)
        self.log_rate = nn.Parameter(torch.empty(HEADS).uniform_(1e-3, 16).log())
        self.step_bias = nn.Parameter(inverse_softplus(log_steps(HEADS).exp()))
        self.weight = nn.Parameter(torch.ones(width // HEADS))
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        mixed, gate, rate, step = self.project(x).split(self.sizes, dim=2)
        parts = F.silu(self.convolution(mixed)).unflatten(2, (1 + 2 * self.updates, HEADS, -1))
        pointing, value = (
            parts.permute(2, 0, 3, 1, 4).contiguous().split([1 + self.updates, self.updates])
        )
        query, key = unit(pointing).split([1, self.updates])
        query, key, value = in_turn(query), in_turn(key), in_turn(value)
        rate = self.reach * rate.sigmoid().unflatten(2, (self.updates, HEADS, 1))
        beta = in_turn(rate.permute(2, 0, 3, 1, 4))
        log_alpha = -self.log_rate.exp() * F.softplus(step + self.step_bias)
        if self.updates > 1:
            query = query.repeat_interleave(self.updates, dim=2)
            log_alpha = F.pad(log_alpha[:, :, None], (0, 0, 0, self.updates - 1)).flatten(1, 2)
        mixed = delta_rule(query, key, beta * value, -beta * key, log_alpha.mT[..., None])
        mixed = mixed[:, :, self.updates - 1 :: self.updates].transpose(1, 2)
        size = mixed.shape[3]
        normed = F.rms_norm(mixed, (size,), self.weight, eps=1e-5 * size)  # in it / √d is a larger ε
        return self.out(normed.flatten(2) * F.silu(gate))


class Negative(GatedDeltaNet):
    """The same with β in (0, 2), as Grazzi et al. propose: eigenvalues of I − β k kᵀ in [−1, 1]."""

    reach = 2.0


class GatedDeltaProduct(GatedDeltaNet):
    """The gated DeltaProduct of Siems et al., with n_h = 2.

    With H_tj = I − β_tj k_tj k_tjᵀ, S_t = α_t S_{t−1} H_t1 … H_tn + Σ_j β_tj v_tj k_tjᵀ H_t(j+1) …
    H_tn: a token forgets once, makes n_h steps of the delta rule, each with its own k, v and β, and
    is read after the last. β is in (0, 2), and a factor may be a reflection: its eigenvalues are
    in [−1, 1]. All else is as in Gated DeltaNet, which is the same with n_h = 1 and β in (0, 1).
    """

    updates = 2
    reach = 2.0


def in_turn(x: Tensor) -> Tensor:
    """(U, B, H, T, D) to (B, H, T U, D): the updates of a token one after another."""
    return x.permute(1, 2, 3, 0, 4).flatten(2, 3)


def unit(x: Tensor) -> Tensor:
    """Vectors of norm 1, or less if they are near 0."""
    return x * torch.rsqrt(x.square().sum(dim=-1, keepdim=True) + 1e-6)
