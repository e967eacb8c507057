"""S5: one diagonal state space with all channels as its inputs and outputs."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Complex, Float
from torch import Tensor, nn

from csprop import scan
from csprop_lab.layers.parts import log_steps

BLOCKS = 4


class S5(nn.Module):
    """The simplified state-space layer (Smith et al., 2023).

    x_t = Λ̄ x_{t−1} + B̄ u_t and y_t = 2 Re(C x_t) + D u_t, where Λ̄ = exp(ΛΔ) and B̄ = Λ⁻¹ (Λ̄ − 1) B come
    from a zero-order hold with a step Δ for every state; the output is GELU(y) ⊙ σ(W GELU(y) + b).

    As published: as many states as channels, one of each conjugate pair; and at first
    Λ and V from four equal blocks of HiPPO-N, B = V⁻¹ B₀ and C = C₀ V with LeCun's normal weights B₀
    and C₀, D normal, and Δ from 0.001 to 0.1. The published option that keeps the real part of Λ below
    zero is on.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        eigenvalues, vectors = hippo(width // BLOCKS)
        v = torch.block_diag(*[vectors] * BLOCKS)  # (states, pairs)
        b = v.mH @ lecun_normal(width, width).to(v.dtype)
        c = torch.complex(lecun_normal(width, width), lecun_normal(width, width)) @ v
        self.real, self.imaginary = (
            nn.Parameter(part.repeat(BLOCKS)) for part in (eigenvalues.real, eigenvalues.imag)
        )
        self.b, self.c = (nn.Parameter(torch.view_as_real(part).clone()) for part in (b, c))
        self.skip = nn.Parameter(torch.randn(width))
        self.log_step = nn.Parameter(log_steps(len(self.real)))
        self.gate = nn.Linear(width, width)

    def forward(self, u: Float[Tensor, "B T W"]) -> Float[Tensor, "B T W"]:
        y = F.gelu(torch.addcmul(self.ssm(u), self.skip, u))
        return y * self.gate(y).sigmoid()

    def ssm(self, u: Float[Tensor, "B T W"]) -> Float[Tensor, "B T W"]:
        """2 Re(C x_t) for all steps."""
        eigenvalues = torch.complex(self.real.clamp(max=-1e-4), self.imaginary)
        log_a = eigenvalues * self.log_step.exp()
        b = (torch.expm1(log_a) / eigenvalues)[:, None] * torch.view_as_complex(self.b)
        entering = u @ torch.cat([b.real, b.imag]).T
        a = torch.view_as_real(log_a.exp()).T.expand(*u.shape[:2], 2, -1)
        x, _ = scan(a, entering.unflatten(2, (2, -1)))
        return x.flatten(2) @ torch.cat([2 * self.c[..., 0], -2 * self.c[..., 1]], dim=1).T


def hippo(size: int) -> tuple[Complex[Tensor, " P"], Complex[Tensor, "N P"]]:
    """The eigenvalues and eigenvectors of HiPPO-N, the normal part of HiPPO-LegS, one of each pair.

    HiPPO-N has −½ on its diagonal and is antisymmetric beside it, with −√((n + ½)(k + ½)) below.
    """
    root = (torch.arange(size, dtype=torch.float64) + 0.5).sqrt()
    below = torch.outer(root, root).tril(-1)
    angles, vectors = torch.linalg.eigh(-1j * (below.T - below))
    half = size // 2
    eigenvalues = torch.complex(torch.full_like(angles, -0.5), angles)
    return eigenvalues[:half].to(torch.complex64), vectors[:, :half].to(torch.complex64)


def lecun_normal(*shape: int) -> Float[Tensor, "..."]:
    """Normal numbers cut off at two deviations, whose squares sum to one over a last dimension."""
    kept = 0.87962566103423978  # the deviation of normal numbers that are cut off
    return nn.init.trunc_normal_(torch.empty(shape), a=-2, b=2) / (kept * math.sqrt(shape[-1]))
