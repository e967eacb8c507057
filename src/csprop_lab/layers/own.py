"""csprop's own layer of features, in the same frame as the layers of others."""

import torch
from torch import Tensor

from csprop.nn import tracker
from csprop.nn.feature_block import CSPBlock


class Rotor(CSPBlock):
    """Channels that the input turns: a `CSPBlock` without its residual, which the frame has."""

    def __init__(self, width: int) -> None:
        super().__init__(width, width, kind="rotor")

    def forward(self, x: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().forward(x, onto=torch.zeros_like(x))[0]


class Tracker(tracker.Tracker):
    """Heads of several kinds, of which training keeps a few."""

    def __init__(self, width: int) -> None:
        super().__init__(width, torch.default_generator)

    def forward(self, x: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().forward(x)[0]
