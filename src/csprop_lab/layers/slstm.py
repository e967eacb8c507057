"""The sLSTM of xLSTM: an LSTM with exponential gates, a normaliser, and memory mixed within heads."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from csprop_lab.layers.short import ShortConvolution

HEADS = 4


class SLSTM(nn.Module):
    """The sLSTM layer of Beck et al., "xLSTM: Extended Long Short-Term Memory", NeurIPS 2024.

    Each of ĩ, f̃, z̃ and õ is W x_t + R h_{t−1} + b, with W and R block-diagonal in four heads, and

        c_t = f_t c_{t−1} + i_t z_t,   n_t = f_t n_{t−1} + i_t,   h_t = o_t c_t / n_t,
        i_t = exp(ĩ_t),   f_t = σ(f̃_t),   z_t = tanh(z̃_t),   o_t = σ(õ_t).

    It is computed with the stabiliser m_t = max(log f_t + m_{t−1}, ĩ_t): c and n are kept times
    exp(−m_t). As published: a causal convolution of four steps and a SiLU before ĩ and f̃, a norm
    of each head, and the initial weights, those of a first block, among which R is zero. The forget
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
        h = Recurrence.apply(gates, self.recurrent.flatten(1, 2))
        h = F.layer_norm(h.permute(3, 0, 1, 2), h.shape[2:3], eps=1e-5)
        return h.flatten(2) * self.scale


def last(x: Float[Tensor, "B T D"]) -> Float[Tensor, "T H S B"]:
    """The features in four heads, and the batch behind them."""
    return x.permute(1, 2, 0).contiguous().unflatten(1, (HEADS, -1))


class Recurrence(torch.autograd.Function):
    """All h_t from R, and from that part of ĩ, f̃, z̃ and õ that is due to the input.

    The batch comes last, so that the numbers of one gate and head lie side by side. c and n are one
    tensor. h does not depend on m, which the backward pass therefore takes as given.
    """

    @staticmethod
    def forward(
        ctx: Any, entering: Float[Tensor, "T H G B"], recurrent: Float[Tensor, "H G S"]
    ) -> Float[Tensor, "T H S B"]:
        (steps, heads, _, batch), size = entering.shape, recurrent.shape[2]
        raw = torch.empty_like(entering)
        states = entering.new_empty(steps, 2, heads, size, batch)
        maxima, shown = torch.empty_like(states[:, 0]), torch.empty_like(states[:, 0])
        state, added = torch.zeros_like(states[0]), torch.ones_like(states[0])
        m, h = torch.full_like(maxima[0], -torch.inf), torch.zeros_like(shown[0])
        value, every = added[0], zip(entering, raw, states, maxima, shown, strict=True)
        for entered, total, next_state, next_m, next_h in every:
            torch.baddbmm(entered, recurrent, h, out=total)
            i, f, z, o = total.view(heads, 4, size, batch).unbind(1)
            f = F.logsigmoid(f).add_(m)
            m = torch.maximum(i, f, out=next_m)
            i, f = torch.stack([i, f]).sub_(m).exp_()
            torch.tanh(z, out=value)
            state = torch.mul(state, f, out=next_state).addcmul_(added, i)
            h = torch.div(state[0], state[1], out=next_h).mul_(o.sigmoid())
        ctx.save_for_backward(raw, states, maxima, shown, recurrent)
        return shown

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *grads: Float[Tensor, "T H S B"]
    ) -> tuple[Tensor, Tensor]:
        raw, states, maxima, h, recurrent = ctx.saved_tensors
        i, f, z, o = raw.unflatten(2, (4, -1)).unbind(2)
        i, z, o, forgotten = (i - maxima).exp(), z.tanh(), o.sigmoid(), (-f).sigmoid()
        f = F.logsigmoid(f) - maxima
        f[1:] += maxima[:-1]
        f = f.exp()
        f[0] = 0
        before = F.pad(states[:-1], (0, 0) * 4 + (1, 0))
        n = states[:, 1]
        by_h = torch.stack([o / n, -h / n], dim=1)
        to_f = (f * forgotten)[:, None] * before
        by_c = torch.stack([i * z, to_f[:, 0], i * (1 - z.square())], dim=2)
        by_n = torch.stack([i, to_f[:, 1]], dim=2)
        to_o = h * (1 - o)
        moved = torch.empty_like(raw)
        parts, back = moved.unflatten(2, (4, -1)), recurrent.mT.contiguous()
        state, following = torch.zeros_like(states[0]), torch.zeros_like(raw[0])
        coming = (grads[0].contiguous(), by_h, by_c, by_n, to_o, f)
        going = (parts[:, :, :3], parts[:, :, :2], parts[:, :, 3], moved)
        for g, h_state, c_raw, n_raw, h_raw, kept, by_three, by_two, by_one, whole in reversed(
            list(zip(*coming, *going, strict=True))
        ):
            dh = torch.baddbmm(g, back, following)
            state.addcmul_(h_state, dh)
            dc, dn = state.unsqueeze(2)
            torch.mul(c_raw, dc, out=by_three)
            by_two.addcmul_(n_raw, dn)
            torch.mul(h_raw, dh, out=by_one)
            state.mul_(kept)
            following = whole
        return moved, (moved[1:] @ h[:-1].mT).sum(0)
