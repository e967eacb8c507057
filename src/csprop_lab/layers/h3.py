"""H3: a memory of recent keys, multiplied with values, remembered, and multiplied with queries."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from csprop_lab.layers.diagonal import DiagonalSSM, finite_convolution

STATE = 64


class H3(nn.Module):
    """The layer of Fu et al., "Hungry Hungry Hippos" (2023).

    (Q, K, V) = W u + b; the output is W_O (Q ⊙ SSM_diag(SSM_shift(K) ⊙ V)) + b_O. The shift SSM has
    x_t = S x_{t−1} + e₁ K_t, where S moves each of 64 states on by one, and y_t = C x_t + D K_t: a
    convolution over the last 64 steps. The diagonal one is S4D-Lin with 64 states (see `DiagonalSSM`).

    As in the published code, heads have one feature, and C and D are normal at first. It differs in
    that steps are made discrete by a zero-order hold and no parameter has a learning rate of its own.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.shift = nn.Parameter(torch.randn(width, STATE))
        self.shift_skip = nn.Parameter(torch.randn(width))
        self.ssm = DiagonalSSM(width, STATE)

    def forward(self, x: Float[Tensor, "B T W"]) -> Float[Tensor, "B T W"]:
        query, key, value = self.project(x).chunk(3, dim=2)
        shifted = torch.addcmul(finite_convolution(key, self.shift), self.shift_skip, key)
        return self.out(query * self.ssm(shifted * value))
