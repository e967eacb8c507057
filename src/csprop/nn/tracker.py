"""A layer of features that tracks state without a hint."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Generator, Tensor, nn

from csprop.cells.tracker import SparseHeads
from csprop.nn.feature_block import check_dropout


class TrackerLayer(nn.Module):
    """A residual layer: x + dropout(heads(norm(x))), with the interface of a `CSPBlock`."""

    def __init__(
        self, features: int, *, dropout: float = 0.0, generator: Generator | None = None
    ) -> None:
        super().__init__()
        check_dropout(dropout)
        self.norm, self.dropout = nn.LayerNorm(features), nn.Dropout(dropout)
        self.heads = SparseHeads(features, torch.default_generator if generator is None else generator)
        self.temperature = 1.0  # nothing here needs one

    def initial_state(self, batch: int = 1) -> Float[Tensor, "B 1 K"]:
        """Return the state before the first step, for each sequence of a batch."""
        return self.heads.initial_state(batch)

    def forward(
        self,
        x: Float[Tensor, "B T F"],
        state: Float[Tensor, "B 1 K"] | None = None,
        reset: Bool[Tensor, "B T"] | None = None,
        *,
        onto: Float[Tensor, "B T F"] | None = None,
    ) -> tuple[Float[Tensor, "B T F"], Float[Tensor, "B 1 K"]]:
        """Return the features after this layer, and the state to carry on from; see `CSPLayer`."""
        y, last = self.heads(self.norm(x), state, reset)
        return (x if onto is None else onto) + self.dropout(y), last

    def step(
        self, x: Float[Tensor, "B F"], state: Tensor, settle: Callable[[Tensor], Tensor] = lambda h: h
    ) -> tuple[Float[Tensor, "B F"], Tensor]:
        """Take one step; `settle` replaces the new state."""
        y, last = self(x[:, None], state)
        return y[:, 0], settle(last)
