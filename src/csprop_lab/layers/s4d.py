"""S4D: a diagonal state space for every channel, which is a convolution."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from csprop_lab.layers.diagonal import DiagonalSSM


class S4D(nn.Module):
    """The diagonal state-space layer S4D-Lin (Gupta et al., 2022; Gu et al., 2022).

    In every channel x_t = exp(ΔA) x_{t−1} + A⁻¹ (exp(ΔA) − 1) u_t and y_t = 2 Re(C x_t) + D u_t, with
    64 states in conjugate pairs (see `DiagonalSSM`); the output is GLU(W GELU(y) + b).

    As published, with the zero-order hold. Nothing differs but dropout, and that no parameter has a
    learning rate of its own.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.ssm = DiagonalSSM(width)
        self.out = nn.Linear(width, 2 * width)

    def forward(self, x: Float[Tensor, "B T W"]) -> Float[Tensor, "B T W"]:
        return F.glu(self.out(F.gelu(self.ssm(x))), dim=2)
