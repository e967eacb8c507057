"""PD-SSM: a state-space layer whose transition moves each number of the state to one place."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Complex, Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

ROWS = 256  # as many N × N matrices at a time as a cache holds


class PDSSM(nn.Module):
    """The layer of Terzić et al., "Structured Sparse Transition Matrices to Enable State Tracking in
    State-Space Models", NeurIPS 2025.

        x_t = A(u_t) x_{t−1} + B u_t,   A(u) = P(u) D(u),   y_t = Re(C x_t) + bias + d ⊙ u_t,
        M(u) = Σ_k softmax(S u)_k M_k,   P(u)_{·j} = hardmax(M(u)_{·j}),
        D(u) = diag(σ(magnitude(u)) ⊙ exp(2πi σ(phase(u)))).

    The state is complex and begins as the first unit vector; magnitude and phase are MLPs with one
    hidden layer of 2N and a GELU. P is column one-hot, and its gradient is that of a softmax of each
    column of M. As published: the eight matrices M_k, all of these parts and their initial weights.
    There are N = 32 states. The authors' code takes the hardmax of rows, the paper that of columns, as
    is done here: so A sends each state to one state, as a machine does, and can merge states. The norm
    and the dropout behind the layer are left to the frame.
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
        x = Walk.apply(self.select(u).softmax(2), self.columns, factor, entering)
        return torch.addcmul(self.read(torch.view_as_real(x).flatten(2)), self.skip, u)


class Walk(torch.autograd.Function):
    """All x_t from the weights of the matrices, the matrices column by column, D, and B u.

    A step adds D x to the places that were chosen, and its adjoint gathers from them, so that a loop is
    quick. Only the choices are kept of M, which the backward pass makes again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        weights: Float[Tensor, "B T K"],
        columns: Float[Tensor, "K N N"],
        factor: Complex[Tensor, "B T N"],
        entering: Complex[Tensor, "B T N"],
    ) -> Complex[Tensor, "B T N"]:
        parts = weights.flatten(0, 1).split(ROWS)
        places = torch.cat([mixed(part, columns).argmax(2) for part in parts]).view(factor.shape)
        x = torch.zeros_like(entering[:, 0])
        x[:, 0] = 1
        states = []
        for place, d, entered in zip(*map(over_time, (places, factor, entering)), strict=True):
            x = entered.clone().scatter_add_(1, place, d * x)
            states.append(x)
        states = torch.stack(states, dim=1)
        ctx.save_for_backward(weights, columns, factor, places, states)
        return states

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *grads: Complex[Tensor, "B T N"]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        weights, columns, factor, places, states = ctx.saved_tensors
        before = F.pad(torch.view_as_real(states[:, :-1]), (0, 0, 0, 0, 1, 0))
        before[:, 0, 0, 0] = 1
        before, back = torch.view_as_complex(before), factor.conj().resolve_conj()
        adjoint, adjoints, gathered = torch.zeros_like(states[:, 0]), [], []
        for place, d, grad in reversed(
            list(zip(*map(over_time, (places, back, grads[0])), strict=True))
        ):
            adjoint = grad + adjoint
            adjoints.append(adjoint)
            moved = adjoint.gather(1, place)
            gathered.append(moved)
            adjoint = moved * d
        to_entering = torch.stack(adjoints[::-1], dim=1)
        to_factor = torch.stack(gathered[::-1], dim=1) * before.conj()
        to_columns, to_weights = torch.zeros_like(columns.flatten(1)), []
        sent, received = (
            torch.view_as_real(part).flatten(0, 1).split(ROWS)
            for part in (factor * before, to_entering)
        )
        for part, leaving, arriving in zip(
            weights.flatten(0, 1).split(ROWS), sent, received, strict=True
        ):
            soft = mixed(part, columns).softmax(2)
            wanted = leaving @ arriving.mT * soft
            wanted = wanted.addcmul_(soft, wanted.sum(2, keepdim=True), value=-1).flatten(1)
            to_columns.addmm_(part.mT, wanted)
            to_weights.append(columns.flatten(1) @ wanted.mT)
        return (
            torch.cat(to_weights, dim=1).mT.reshape(weights.shape),
            to_columns.view_as(columns),
            to_factor,
            to_entering,
        )


def over_time(x: Tensor) -> tuple[Tensor, ...]:
    """The steps of (B, T, …)."""
    return x.unbind(1)


def mixed(weights: Float[Tensor, "R K"], columns: Float[Tensor, "K N N"]) -> Float[Tensor, "R N N"]:
    """M column by column, of R steps."""
    return (weights @ columns.flatten(1)).unflatten(1, columns.shape[1:])
