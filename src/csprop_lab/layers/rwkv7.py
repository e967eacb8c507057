"""The time mixing of RWKV-7."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from csprop_lab.layers.delta_rule import delta_rule

HEADS = 4
RANK = 32


class RWKV7(nn.Module):
    """The time mixing of Peng et al.

    S_t = S_{t−1} (diag(w_t) − κ̂_tᵀ (a_t ⊙ κ̂_t)) + v_tᵀ k̃_t, read by the receptance r_t in four heads.
    Each of r, w, k, v, a and g comes from a mix of its own of x_t and x_{t−1}; the decay
    w = exp(−e^{−0.5} σ(·)), the in-context learning rate a = σ(·) and the gate g from projections of
    rank 32. The removal key κ̂ is k ⊙ ξ with norm 1, and k̃ = k ⊙ (1 + (a − 1) ⊙ α). What is read is
    normalised in each head (GroupNorm), then the bonus (r · (ρ ⊙ k̃)) v is added, and the sum is gated
    and projected. The initialisation is from the authors' code for a first layer: at first the
    output is 0. The mix with the first layer's values is left out, for a layer of this frame does not
    see the others.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        place = torch.arange(width)
        line, size = place / (width - 1) - 0.5, width // HEADS
        zigzag = 2 * (place % size) / (size - 1) - 1
        zigzag = zigzag * zigzag.abs()
        powers = torch.tensor([0.2, 0.7, 0.7, 0.9, 0.9, 0.2])[:, None, None]  # of r, k, v, w, a, g
        self.shift = nn.Parameter(1 - (place / width) ** powers)
        bounds = torch.tensor([0.5, 0.05, 0.5])[:, None, None] * width**-0.5
        self.project = nn.Parameter(bounds * torch.empty(3, width, width).uniform_(-1, 1))  # r, k, v
        self.down = nn.Parameter(torch.zeros(3, width, RANK))  # w, a, g
        self.up = nn.Parameter(torch.empty(3, RANK, width))
        for part in self.up.detach():
            nn.init.orthogonal_(part, gain=0.1 * math.sqrt(max(1, RANK / width)))
        self.decay_bias = nn.Parameter(6 * line - 2.5 + 2.5 * zigzag)
        self.rate_bias = nn.Parameter(-0.19 + 0.3 * zigzag + 0.4 * line)
        self.removal = nn.Parameter(0.71 - 0.1 * line)  # ξ
        self.replacement = nn.Parameter(torch.full((width,), 1.02))  # α
        self.bonus = nn.Parameter(torch.full((width,), -0.04))  # ρ
        self.norm = nn.GroupNorm(HEADS, width, eps=64e-5)
        self.out = nn.Linear(width, width, bias=False)
        nn.init.zeros_(self.out.weight)

    def forward(self, x: Tensor) -> Tensor:
        change = F.pad(x, (0, 0, 1, -1)) - x
        mixes = torch.addcmul(x.flatten(0, 1), change.flatten(0, 1), self.shift)
        r, k, v = (mixes[:3] @ self.project).unflatten(1, x.shape[:2])
        w, a, g = mixes[3:] @ self.down
        w, a, g = (torch.stack([w.tanh(), a, g.sigmoid()]) @ self.up).unflatten(1, x.shape[:2])
        log_w = -math.exp(-0.5) * torch.sigmoid(self.decay_bias + w)
        a = torch.sigmoid(self.rate_bias + a)
        removed = F.normalize((k * self.removal).unflatten(2, (HEADS, -1)), dim=3).flatten(2)
        k = k * (1 + (a - 1) * self.replacement)
        inputs = (r, k, v, -removed * torch.exp(-log_w), log_w, removed * a)
        mixed = delta_rule(*(y.unflatten(2, (HEADS, -1)).transpose(1, 2) for y in inputs))
        mixed = self.norm(mixed.transpose(1, 2).flatten(0, 1).flatten(1)).view_as(x)
        strength = (r * k * self.bonus).unflatten(2, (HEADS, -1)).sum(dim=3, keepdim=True)
        mixed = mixed + (strength * v.unflatten(2, (HEADS, -1))).flatten(2)
        return self.out(mixed * g)
