"""Megalodon: a complex moving average that feeds gated attention within chunks."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from csprop_lab.layers.attention import rotate
from csprop_lab.layers.diagonal import diagonal_convolution

HEADS, AVERAGES, CHUNK = 4, 16, 64


class Megalodon(nn.Module):
    """The moving average gated attention of Ma et al. (2024).

    X̃ = TimestepNorm(X); X′ = RMSNorm(CEMA(X̃)); Z = X′ W_z + b_z, normalised in each head to Z′;
    Q = κ_q ⊙ Z′ + μ_q and K = κ_k ⊙ Z′ + μ_k, turned by their position in the chunk;
    V = SiLU(X̃ W_v + b_v); O = softmax(Q Kᵀ) V over the past of the same chunk;
    the output is X′ W_h + b_h + (SiLU(X′ W_γ + b_γ) ⊙ O) U_h, to which the frame adds X.

    As published: all of these parts, values of twice the width, four heads, and the first weights of
    the released code. Attention sees a chunk of 64 steps (the paper's have 4,096 at a width of 4,096),
    and the averages and norms alone go on from one chunk to the next. Q and K have a quarter of the
    width a head, as the paper's sixteenth would be 4 features. The norm of the frame before the layer
    comes in addition to the timestep norm.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.timestep_norm, self.average = TimestepNorm(width), CEMA(width)
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.parts = [width, 2 * width, width]  # Z, the gate, and what attention is added to
        self.project, self.value = nn.Linear(width, sum(self.parts)), nn.Linear(width, 2 * width)
        self.out = nn.Linear(2 * width, width, bias=False)
        self.scales = nn.Parameter(torch.full((2, 1, width), (width // HEADS) ** -0.5))
        self.shifts = nn.Parameter(torch.zeros(2, 1, width))
        for linear in (self.project, self.value, self.out):
            nn.init.kaiming_normal_(linear.weight, a=math.sqrt(5))
        nn.init.zeros_(self.project.bias)
        nn.init.zeros_(self.value.bias)

    def forward(self, x: Float[Tensor, "B T W"]) -> Float[Tensor, "B T W"]:
        x = self.timestep_norm(x)
        averaged = self.norm(self.average(x))
        shared, gate, candidate = self.project(averaged).split(self.parts, dim=2)
        shared = shared.unflatten(2, (HEADS, -1))
        shared = F.rms_norm(shared, shared.shape[3:], eps=1e-5).flatten(2)
        sought = torch.addcmul(self.shifts[:, None], shared, self.scales[:, None])
        attended = chunk_attention(sought, F.silu(self.value(x)))
        return candidate + self.out(attended * F.silu(gate))


def chunk_attention(
    sought: Float[Tensor, "2 B T Z"], value: Float[Tensor, "B T V"]
) -> Float[Tensor, "B T V"]:
    """Softmax attention over the past of each chunk, with queries and keys turned by their position."""
    batch, steps = value.shape[:2]
    size = min(steps, CHUNK)
    sought, value = (
        F.pad(part, (0, 0, 0, -steps % size)).unflatten(-2, (-1, size)).unflatten(-1, (HEADS, -1))
        for part in (sought, value)
    )
    query, key = rotate(sought.transpose(-3, -2).contiguous())
    later = torch.full((size, size), -torch.inf, dtype=value.dtype, device=value.device).triu(1)
    weights = (query @ key.mT + later).softmax(dim=-1)
    mixed = (weights @ value.transpose(-3, -2)).transpose(-3, -2)
    return mixed.reshape(batch, -1, mixed.shape[-2] * mixed.shape[-1])[:, :steps]


class CEMA(nn.Module):
    """The complex exponential moving average, with 16 averages of every channel.

    h_t = α e^{iθ} x_t + (1 − α δ) e^{iθ} h_{t−1} and y_t = Re(ηᵀ h_t) + ω x_t, where α and δ are in
    (0, 1) and the angle of average k is θ_k = 2πk/16 times a number in (0, 1). As in the released code,
    the expansion β of x is a part of η, which is scaled by 1/4, and ω x is added; unlike there, x is
    turned by e^{iθ} as it enters.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.alpha, self.delta = (nn.Parameter(0.2 * torch.randn(width, AVERAGES)) for _ in range(2))
        frequency = width ** -((torch.randperm(width) + 1) / width)
        self.theta = nn.Parameter(frequency.logit()[:, None])
        self.eta = nn.Parameter(
            torch.stack([torch.randn(width, AVERAGES), torch.zeros(width, AVERAGES)], dim=2)
        )
        self.omega = nn.Parameter(nn.init.trunc_normal_(torch.empty(width), std=0.25, a=-1, b=1))

    def forward(self, x: Float[Tensor, "B T W"]) -> Float[Tensor, "B T W"]:
        alpha = self.alpha.sigmoid()
        turns = torch.arange(1, AVERAGES + 1, dtype=x.dtype, device=x.device) / AVERAGES
        angle = 2 * math.pi * turns * self.theta.sigmoid()
        log_a = torch.complex(torch.log1p(-alpha * self.delta.sigmoid()), angle)
        weight = torch.view_as_complex(self.eta) * torch.polar(alpha * AVERAGES**-0.5, angle)
        return torch.addcmul(diagonal_convolution(x, log_a, weight), self.omega, x)


class TimestepNorm(nn.Module):
    """Four groups of channels, each normalised by its mean and variance over all steps so far."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "B T W"]) -> Float[Tensor, "B T W"]:
        groups = x.unflatten(2, (HEADS, -1))
        count = torch.arange(1, x.shape[1] + 1, device=x.device, dtype=torch.float64)[:, None]
        sums = torch.stack([groups.mean(3), groups.square().mean(3)]).double().cumsum(2) / count
        mean = sums[0]
        deviation = ((sums[1] - mean.square()).clamp(min=0) + 1e-5).sqrt()
        normal = (groups - mean.to(x.dtype)[..., None]) / deviation.to(x.dtype)[..., None]
        return torch.addcmul(self.bias, normal.flatten(2), self.weight)
