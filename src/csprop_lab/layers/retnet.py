"""The retention of RetNet: rotary linear attention, with a fixed decay for each head."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from csprop_lab.layers.attention import turn_pairs
from csprop_lab.layers.decayed_attention import decayed_attention

HEADS = 4


class Retention(nn.Module):
    """Multi-scale retention of Sun et al.

    S_n = γ S_{n−1} + K_nᵀ V_n and Q_n S_n / √d, with queries and keys turned by n θ, and for head h the
    decay γ = 1 − 2^{−5−h}. Each head is normalised (GroupNorm without weights), multiplied by
    swish(X W_G), and projected. θ and the initialisation are from the authors' code. Values are as
    wide as keys, as in the paper's equations; its language models double them. The row sums by which
    the authors divide against overflow are left out: the norm undoes them.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(width, 4 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        for part in self.project.weight.detach().chunk(4):
            nn.init.xavier_uniform_(part, gain=2**-2.5)
        nn.init.xavier_uniform_(self.out.weight)
        self.decay: Tensor
        self.register_buffer("decay", 1 - 2.0 ** (-5 - torch.arange(HEADS)))

    def forward(self, x: Tensor) -> Tensor:
        width, size = x.shape[2], x.shape[2] // HEADS
        parts, gate = self.project(x).split([3 * width, width], dim=2)
        parts = parts.unflatten(2, (3, HEADS, size)).permute(2, 0, 3, 1, 4).contiguous()
        rates = 10_000 ** -torch.linspace(0, 1, size // 2, dtype=torch.float64)
        query, key = turn_pairs(parts[:2], rates)
        mixed = decayed_attention(query * size**-0.5, key, parts[2], self.decay)
        mixed = F.layer_norm(mixed, (size,), eps=1e-6).transpose(1, 2).flatten(2)
        return self.out(mixed * F.silu(gate))
