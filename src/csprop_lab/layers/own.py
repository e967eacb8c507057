"""csprop's own layer of features, in the same frame as the layers of others."""

from typing import Any

import torch
from torch import Tensor, nn

from csprop.cells.tracker import SparseHeads
from csprop.nn.feature_block import CSPBlock


class Rotor(CSPBlock):
    """Channels that the input turns: a `CSPBlock` without its residual, which the frame has."""

    def __init__(self, width: int) -> None:
        super().__init__(width, width, kind="rotor")

    def forward(self, x: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().forward(x, onto=torch.zeros_like(x))[0]


class Tracker(SparseHeads):
    """Heads of several kinds, of which training keeps a few."""

    def __init__(self, width: int) -> None:
        super().__init__(width, torch.default_generator)

    def forward(self, x: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.carry(x)[0]

    carry = SparseHeads.forward


class Stepwise(nn.Module):
    """A `Frame` of trackers that takes single steps, as `csprop.certify` needs it."""

    def __init__(self, frame: Any, trained_as: Any) -> None:
        super().__init__()
        self.frame, self.trained_as = frame, trained_as

    def forward(self, tokens: Tensor) -> Tensor:
        return self.frame(tokens)

    def initial_state(self, batch: int = 1) -> Tensor:
        """Return the state before the first step, for each sequence of a batch."""
        return torch.stack([each.layer.initial_state(batch) for each in self.frame.blocks], dim=1)

    def step(self, state: Tensor, tokens: Tensor, _settle: Any) -> tuple[Tensor, Tensor]:
        """Take one token of each sequence, and return the states and the scores after it."""
        x, last = self.frame.embedding(tokens)[:, None], []
        for number, block in enumerate(self.frame.blocks):
            y, h = block.layer.carry(block.before(x), state[:, number])
            x = x + y
            x = x + block.mlp(x)
            last.append(h)
        return torch.stack(last, dim=1), self.frame.decoder(self.frame.norm(x))[:, 0]
