"""Convolutions with the kernels of diagonal state spaces, chunk by chunk."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Complex, Float
from torch import Tensor, nn

from csprop import scan
from csprop_lab.layers.parts import log_steps

CHUNK = 64


class DiagonalSSM(nn.Module):
    """A state space S4D-Lin for every channel by itself.

    x′ = A x + u, y = 2 Re(C x) + D u with one of each pair of conjugate states, made discrete by a
    zero-order hold of Δ: x_t = exp(ΔA) x_{t−1} + A⁻¹ (exp(ΔA) − 1) u_t. As published, B is a part of C,
    the real part of A is kept below zero as −exp(·), and at first A = −½ + iπn, C and D are normal, and
    Δ is from 0.001 to 0.1.
    """

    def __init__(self, channels: int, states: int = 64) -> None:
        super().__init__()
        pairs = states // 2
        self.log_step = nn.Parameter(log_steps(channels))
        self.log_decay = nn.Parameter(torch.full((channels, pairs), math.log(0.5)))
        self.frequency = nn.Parameter(math.pi * torch.arange(pairs).float().repeat(channels, 1))
        self.c = nn.Parameter(torch.randn(channels, pairs, 2) * 0.5**0.5)
        self.skip = nn.Parameter(torch.randn(channels))

    def forward(self, u: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        a = torch.complex(-self.log_decay.exp(), self.frequency)
        log_a = a * self.log_step.exp()[:, None]
        weight = 2 * torch.view_as_complex(self.c) * torch.expm1(log_a) / a
        return torch.addcmul(diagonal_convolution(u, log_a, weight), self.skip, u)


def diagonal_convolution(
    x: Float[Tensor, "B T D"], log_a: Complex[Tensor, "D N"], weight: Complex[Tensor, "D N"]
) -> Float[Tensor, "B T D"]:
    """y_t = Re Σ_n w_n h_{t,n}, where h_{t,n} = a_n h_{t−1,n} + x_t, for every channel by itself.

    Within a chunk it is a product with a Toeplitz matrix; what went before enters by the states at its
    start, which are a scan over the chunks.
    """
    steps, size = x.shape[1], min(x.shape[1], CHUNK)
    times = torch.arange(size + 1, dtype=x.dtype, device=x.device)
    decay = (log_a.real[..., None] * times).exp()
    angle = log_a.imag[..., None] * times
    real, imaginary = decay * angle.cos(), decay * angle.sin()  # of a^k: (D, N, size + 1)
    powers = torch.cat([real, imaginary], dim=1)
    weights = torch.cat([weight.real, -weight.imag], dim=1)[:, None]
    kernel = (weights @ powers[:, :, :size])[:, 0]
    parts = split_chunks(x, size)
    chunks = parts.flatten(1, 2)
    y = chunks @ toeplitz(kernel)
    if size < steps:
        ends = chunks @ powers[:, :, :size].flip(2).mT
        w, v = weight.real[..., None], weight.imag[..., None]
        readout = torch.cat([w * real - v * imaginary, -v * real - w * imaginary], dim=1)
        before = _carried(powers[:, :, size], ends.unflatten(1, parts.shape[1:3]))
        y = y + before.flatten(1, 2) @ readout[:, :, 1:]
    return join_chunks(y.unflatten(1, parts.shape[1:3]), steps)


def _carried(a: Float[Tensor, "D P"], ends: Float[Tensor, "D B C P"]) -> Float[Tensor, "D B C P"]:
    """The states before each chunk, from what each chunk alone leaves and its factor; P is 2N."""
    channels, batch, count, _ = ends.shape
    a = a.unflatten(1, (2, -1)).transpose(0, 1).flatten(1)
    entering = ends.unflatten(3, (2, -1)).permute(1, 2, 3, 0, 4).flatten(3)
    h, _ = scan(a.expand(batch, count, *a.shape), entering)
    before = F.pad(h[:, :-1], (0, 0, 0, 0, 1, 0))
    return before.unflatten(3, (channels, -1)).permute(3, 0, 1, 2, 4).flatten(3)


def finite_convolution(
    x: Float[Tensor, "B T D"], kernel: Float[Tensor, "D K"]
) -> Float[Tensor, "B T D"]:
    """y_t = Σ_k kernel_k x_{t−k}, for every channel by itself, of at most CHUNK weights."""
    steps, size = x.shape[1], min(x.shape[1], CHUNK)
    parts = split_chunks(x, size)
    kernel = F.pad(kernel, (0, CHUNK - kernel.shape[1]))[:, :size]
    y = parts.flatten(1, 2) @ toeplitz(kernel)
    if size < steps:
        before = F.pad(parts[:, :, :-1], (0, 0, 1, 0)).flatten(1, 2)
        y = y + before @ toeplitz(F.pad(kernel, (0, size)))[:, :size, size:]
    return join_chunks(y.unflatten(1, parts.shape[1:3]), steps)


def toeplitz(kernel: Float[Tensor, "D K"]) -> Float[Tensor, "D K K"]:
    """The matrices whose entry in row s and column t is kernel_{t−s}, or zero before s."""
    size = kernel.shape[1]
    return F.pad(kernel, (size - 1, 0)).unfold(1, size, 1).flip(1)


def split_chunks(x: Float[Tensor, "B T D"], size: int) -> Float[Tensor, "D B C S"]:
    """The steps of every channel in chunks, the last one filled up with zeros."""
    padded = F.pad(x, (0, 0, 0, -x.shape[1] % size))
    return padded.unflatten(1, (-1, size)).permute(3, 0, 1, 2).contiguous()


def join_chunks(y: Float[Tensor, "D B C S"], steps: int) -> Float[Tensor, "B T D"]:
    """Undo `split_chunks`, and drop the padding."""
    return y.permute(1, 2, 3, 0).flatten(1, 2)[:, :steps]
