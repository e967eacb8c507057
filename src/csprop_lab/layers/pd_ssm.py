"""PD-SSM: a state-space layer whose transition moves each number of the state to one place."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Complex, Float
from torch import Tensor, nn


class PDSSM(nn.Module):
    """The layer of Terzić et al., "Structured Sparse Transition Matrices to Enable State Tracking in
    State-Space Models", NeurIPS 2025.

        x_t = A(u_t) x_{t−1} + B u_t,   A(u) = P(u) D(u),   y_t = Re(C x_t) + bias + d ⊙ u_t,
        M(u) = Σ_k softmax(S u)_k M_k,   P(u)_{·j} = hardmax(M(u)_{·j}),
        D(u) = diag(σ(magnitude(u)) ⊙ exp(2πi σ(phase(u)))).

    The state is complex and begins as the first unit vector; magnitude and phase are MLPs with one
    hidden layer of 2N and a GELU. P is column one-hot, and its gradient is taken through a softmax of
    each column of M. As published: the eight matrices M_k, all these parts and their initial weights.
    There are N = 32 states. The authors' code takes the hardmax of rows; this layer follows the paper
    and takes it of columns, so A sends each state to one state, as a machine does, and merges states.
    The norm and the dropout behind the layer are left to the frame.
    """

    def __init__(self, width: int, *, states: int = 32, matrices: int = 8) -> None:
        super().__init__()
        self.select = nn.Linear(width, matrices, bias=False)
        self.columns = nn.Parameter(torch.randn(matrices, states, states) / math.sqrt(states))
        self.magnitude, self.phase = (
            nn.Sequential(nn.Linear(width, 2 * states), nn.GELU(), nn.Linear(2 * states, states))
            for _ in range(2)
        )
        self.enter = nn.Parameter(torch.randn(2 * states, width) / math.sqrt(2 * states))
        self.read = nn.Linear(2 * states, width)
        self.skip = nn.Parameter(torch.randn(width) / math.sqrt(width))

    def forward(self, u: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        angle = 2 * math.pi * self.phase(u).sigmoid()
        factor = torch.polar(self.magnitude(u).sigmoid(), angle)
        entering = torch.view_as_complex(F.linear(u, self.enter).unflatten(2, (-1, 2)))
        x = walk(self.select(u).softmax(2), self.columns, factor, entering)
        return torch.addcmul(self.read(torch.view_as_real(x).flatten(2)), self.skip, u)


def walk(
    weights: Float[Tensor, "B T K"],
    columns: Float[Tensor, "K N N"],
    factor: Complex[Tensor, "B T N"],
    entering: Complex[Tensor, "B T N"],
) -> Complex[Tensor, "B T N"]:
    """All x_t from the weights of the matrices, the matrices column by column, D, and B u."""
    x, states = torch.zeros_like(entering[:, 0]), []
    x[:, 0] = 1
    for weight, d, entered in zip(
        *(part.unbind(1) for part in (weights, factor, entering)), strict=True
    ):
        m = (weight @ columns.flatten(1)).unflatten(1, columns.shape[1:])
        soft = m.softmax(2)
        hard = F.one_hot(m.argmax(2), m.shape[2]).to(soft)
        p = hard + (soft - soft.detach())  # the hard choice, with the gradient of the soft one
        moved = torch.view_as_real(d * x).mT @ p
        x = entered + torch.view_as_complex(moved.mT.contiguous())
        states.append(x)
    return torch.stack(states, dim=1)
