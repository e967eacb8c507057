"""The sLSTM of xLSTM: an LSTM with exponential gates, a normaliser, and memory mixed within heads."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from csprop_lab.layers.parts import ShortConvolution

HEADS = 4


class SLSTM(nn.Module):
    """The sLSTM layer of Beck et al., "xLSTM: Extended Long Short-Term Memory", NeurIPS 2024.

    Each of ĩ, f̃, z̃ and õ is W x_t + R h_{t−1} + b, with W and R block-diagonal in four heads, and

        c_t = f_t c_{t−1} + i_t z_t,   n_t = f_t n_{t−1} + i_t,   h_t = o_t c_t / n_t,
        i_t = exp(ĩ_t),   f_t = σ(f̃_t),   z_t = tanh(z̃_t),   o_t = σ(õ_t).

    It is computed with the stabiliser m_t = max(log f_t + m_{t−1}, ĩ_t): c and n are kept times
    exp(−m_t). As published: a causal convolution of four steps and a SiLU before ĩ and f̃, a norm
    of each head, and the initial weights of a first block, where R is zero. The forget
    gate is a sigmoid, as in the authors' code, of the two that the paper allows. What follows the
    layer in the authors' block, a gated MLP, is the frame's.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        size = width // HEADS
        self.conv = ShortConvolution(width)
        self.weight = nn.Parameter(torch.randn(HEADS, 4, size, size) * math.sqrt(0.4 / width))
        self.recurrent = nn.Parameter(torch.zeros(HEADS, 4, size, size))
        self.bias = nn.Parameter(torch.zeros(HEADS, 4, size))
        self.scale = nn.Parameter(torch.ones(width))
        with torch.no_grad():
            self.bias[:, 1] = 5 - 12 * torch.linspace(0, 1, size) ** 0.3

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        early, late = self.weight.flatten(1, 2).chunk(2, dim=1)
        recent = F.silu(self.conv(x))
        gates = torch.cat([early @ last(recent), late @ last(x)], dim=2) + self.bias.view(HEADS, -1, 1)
        h = recurrence(gates, self.recurrent.flatten(1, 2))
        h = F.layer_norm(h.permute(3, 0, 1, 2), h.shape[2:3], eps=1e-5)
        return h.flatten(2) * self.scale


def last(x: Float[Tensor, "B T D"]) -> Float[Tensor, "T H S B"]:
    """The features in four heads, and the batch behind them."""
    return x.permute(1, 2, 0).contiguous().unflatten(1, (HEADS, -1))


def recurrence(
    entering: Float[Tensor, "T H G B"], recurrent: Float[Tensor, "H G S"]
) -> Float[Tensor, "T H S B"]:
    """All h_t from R, and from the part of ĩ, f̃, z̃ and õ that is due to the input.

    The batch comes last: the numbers of one gate and head lie side by side. h does not depend on m,
    so m has no gradient.
    """
    heads, _, size = recurrent.shape
    c = n = h = entering.new_zeros(heads, size, entering.shape[3])
    m, shown = torch.full_like(h, -torch.inf), []
    for entered in entering:
        i, f, z, o = torch.baddbmm(entered, recurrent, h).unflatten(1, (4, -1)).unbind(1)
        f = F.logsigmoid(f) + m
        m = torch.maximum(i, f).detach()
        i, f = (i - m).exp(), (f - m).exp()
        c, n = f * c + i * z.tanh(), f * n + i
        h = o.sigmoid() * c / n
        shown.append(h)
    return torch.stack(shown)
