"""Counters: whole numbers to which every token adds.

    h_t = h_{t−1} + round(Re z_t),  h_0 = i

    h_t          c_t + i with a whole count c_t, exact up to 2^24 in float32            (B, T, 2, D)
    output       n / (|n| + 1e-8), n = h_t + σ(g) ⊙ z_t

The phase of c + i distinguishes zero, positive and negative counts with the same margin, however large
the count. Rounding has the gradient of Re z. In a first layer the increments are not trained:
`increments.py` chooses them. The adjoint is a sum from the end: λ_t = g_t + λ_{t+1}, ∂Re z_t = Re λ_t.
"""

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from csprop.cells.block import Block, Numbering, Transition, add_skip
from csprop.cells.increments import prepare
from csprop.cells.options import Counter, Shape
from csprop.cells.parts import unit
from csprop.ops.counts import exact, whole
from csprop.ops.planes import wide


class CounterBlock(Block):
    """A layer of counters. A count that is not exact raises InputError."""

    has_unit_output = True

    def __init__(self, cell: Counter, shape: Shape, generator: Generator) -> None:
        super().__init__(cell, shape, generator)
        self.skip = nn.Parameter(torch.full((shape.width,), 0.5))

    @torch.no_grad()
    def fill_start(self) -> None:
        """Start at i."""
        self.h0.zero_()
        self.h0[1] = 1

    def begin(self, embedding: Float[Tensor, "V 2 D"], generator: Generator) -> None:
        """Let the rows of the embedding be increments."""
        self.trains_embedding = False
        if not embedding.is_meta:
            prepare(embedding, generator)

    def transition(self, z: Float[Tensor, "B T 2 D"]) -> Transition:
        """Return 1, and Re z rounded to whole numbers."""
        ones = wide(z.new_ones(*z.shape[:2], 1, 1))
        return ones, ones * torch.stack([whole(z[:, :, 0]), torch.zeros_like(z[:, :, 1])], dim=2)

    def recur(
        self, transition: Transition, state: Tensor, reset: Tensor | None, coupled: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return all states, and the last one, if every count is exact."""
        h, last = super().recur(transition, state, reset, coupled)
        _, u = self._entering(transition, reset, coupled)
        return _check_counts(h, self.shift(h, state, reset), u), last

    def advance(self, z: Tensor, state: Tensor, coupled: Tensor | None = None) -> Tensor:
        """Return the state after one more step, if every count is exact."""
        h = super().advance(z, state, coupled)
        return _check_counts(h[:, None], state[:, None], self.transition(z)[1])[:, 0]

    def finish(self, h: Tensor, z: Tensor, before: Tensor | None = None) -> Tensor:
        """Add the skip, and keep the phase."""
        return unit(add_skip(h, self.skip, z)).to(z.dtype)

    def describe_inputs(self, tensors: Numbering) -> dict[str, int]:
        return {**tensors.linear("angle", None), **tensors.linear("gate", None)}

    def describe(self, tensors: Numbering) -> dict[str, int | str]:
        return {
            "rotate": "none",
            "bounded_angle": 1,
            "decay": "count",
            "activation": "none",
            "norm": "complex",
            "skip": tensors.add(self.skip),
            "start": tensors.add(self.h0),
        }


def _check_counts(
    h: Float[Tensor, "B T 2 D"], before: Float[Tensor, "B T 2 D"], u: Float[Tensor, "B T 2 D"]
) -> Float[Tensor, "B T 2 D"]:
    """Return the states if their counts are exact; raise InputError otherwise."""
    (counts, line), added = h.unbind(2), u[:, :, 0].expand_as(h[:, :, 0])
    return torch.stack([exact(counts, before[:, :, 0].to(counts), added), line], dim=2)
