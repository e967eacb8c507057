"""The mLSTM of xLSTM: a matrix memory with exponential gates."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from csprop_lab.layers.parts import ShortConvolution

HEADS = 4
CHUNK = 64


class MLSTM(nn.Module):
    """The mLSTM layer of Beck et al., "xLSTM: Extended Long Short-Term Memory", NeurIPS 2024.

    In each of four heads, with k_t scaled by 1/√d:

        C_t = f_t C_{t−1} + i_t v_t k_tᵀ,   n_t = f_t n_{t−1} + i_t k_t,
        h̃_t = C_t q_t / max(|n_tᵀ q_t|, 1),   i_t = exp(ĩ_t),   f_t = σ(f̃_t).

    It is computed with the stabiliser m_t = max(log f_t + m_{t−1}, ĩ_t): C and n are kept times
    exp(−m_t), and the 1 becomes exp(−m_t). As published: a projection up to twice the width (so
    heads of 32 at width 64), a causal convolution of four steps and a SiLU before q and k,
    block-diagonal q, k and v with blocks of four, gates that read q, k and v, a norm of each head,
    a learnt skip from the convolution, an output gate SiLU(z), and the projection down; also the
    initial weights of one block. The forget gate is a sigmoid, as in the authors' code, of
    the two that the paper allows.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = 2 * width
        self.up = nn.Linear(width, 2 * inner, bias=False)
        self.conv = ShortConvolution(inner)
        self.query_key = Blocks(inner, inner // 4, maps=2, fan=width)
        self.value = Blocks(inner, inner // 4, maps=1, fan=width)
        self.gates = nn.Linear(3 * inner, 2 * HEADS)
        self.scale = nn.Parameter(torch.ones(inner))
        self.skip = nn.Parameter(torch.ones(inner))
        self.down = nn.Linear(inner, width, bias=False)
        nn.init.normal_(self.up.weight, std=math.sqrt(0.4 / width))
        nn.init.normal_(self.down.weight, std=2 / math.sqrt(width))
        nn.init.zeros_(self.gates.weight)
        nn.init.normal_(self.gates.bias[:HEADS], std=0.1)
        with torch.no_grad():
            self.gates.bias[HEADS:] = torch.linspace(3, 6, HEADS)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        entering, z = self.up(x).chunk(2, dim=2)
        recent = F.silu(self.conv(entering))
        parts = torch.cat([self.query_key(recent), self.value(entering)], dim=3)
        write, keep = self.gates(parts.flatten(2)).chunk(2, dim=2)
        query, key, value = parts.unflatten(2, (HEADS, -1)).permute(4, 0, 2, 1, 3, 5).flatten(4)
        h = read_memory(query, key, value, write.mT, F.logsigmoid(keep).mT)
        h = F.layer_norm(h, h.shape[3:], eps=1e-5).transpose(1, 2).flatten(2) * self.scale
        return self.down(torch.addcmul(h, self.skip, recent) * F.silu(z))


class Blocks(nn.Module):
    """A block-diagonal linear map without a bias: each of `blocks` groups of features to itself.

    There are `maps` of them side by side, which read the same input. The weights, (blocks, maps,
    features out, features in), are normal with the variance 2/(5 · fan) of a small initialisation.
    """

    def __init__(self, width: int, blocks: int, maps: int, fan: int) -> None:
        super().__init__()
        size = width // blocks
        self.weight = nn.Parameter(torch.randn(blocks, maps, size, size) * math.sqrt(0.4 / fan))

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T K M S"]:
        """Return the outputs of K blocks, M maps and S features."""
        blocks, _, _, size = self.weight.shape
        return torch.einsum("btkd,kmsd->btkms", x.unflatten(2, (blocks, size)), self.weight)


def read_memory(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H T K"],
    value: Float[Tensor, "B H T V"],
    write: Float[Tensor, "B H T"],
    keep: Float[Tensor, "B H T"],
    eps: float = 1e-6,
) -> Float[Tensor, "B H T V"]:
    """All h̃_t, from ĩ_t = `write` and log f_t = `keep`, 64 steps at a time.

    Within such a chunk let b_t be the sum of log f up to t, and g_t the maximum of ĩ_s − b_s up to
    t and of the m before it. Then m_t = b_t + g_t, and step s counts exp(ĩ_s − b_s − g_t) at t. But
    for `eps`, which the authors add to the denominator, h̃ does not depend on g, so g
    has no gradient.
    """
    scale = math.log(key.shape[-1]) / 2
    value = torch.cat([value, torch.ones_like(value[..., :1])], dim=3)  # C gets n as a last row
    memory = query.new_zeros(*query.shape[:2], query.shape[3], value.shape[3])
    m, parts = torch.zeros_like(write[..., :1]), []
    steps = [part.split(CHUNK, dim=2) for part in (query, key, value, write, keep)]
    for number, (q, k, v, i, log_f) in enumerate(zip(*steps, strict=True)):
        b = log_f.cumsum(2)
        a = i - b
        scaled = a - scale
        g = torch.maximum(a.detach().cummax(2).values, m.detach())
        future = a.new_full((a.shape[2], a.shape[2]), math.inf).triu(1)
        counted = (scaled[..., None, :] - (g[..., None] + future)).exp()
        read = (q @ k.mT * counted) @ v
        if number:
            read = read + (m - g).exp()[..., None] * (q @ memory)
        floor = (-b - g).clamp(max=80).exp()[..., None]  # where it would overflow, h̃ is 0
        parts.append(read[..., :-1] / (torch.maximum(read[..., -1:].abs(), floor) + eps))
        if number + 1 < len(steps[0]):
            last = g[..., -1:]
            memory = (m - last).exp()[..., None] * memory + (
                k * (scaled - last).exp()[..., None]
            ).mT @ v
            m = b[..., -1:] + last
    return torch.cat(parts, dim=2)
