"""Small networks around one layer of features, csprop's or another, to be compared with each other."""

from typing import Literal

import torch
from torch import Generator, Tensor, nn

from csprop import CSPLayer
from csprop_lab.layers.basic import LAYERS

NetworkKind = Literal["csprop", "csprop, two blocks", "LSTM", "GRU", "SSM [0, 1]"]
DEPTHS: dict[str, int] = {"csprop": 1, "csprop, two blocks": 2}
"""Blocks of csprop's layer."""


class Network(nn.Module):
    """Tokens (B, T) or numbers (B, T, 1) to scores (B, T, classes); (B, classes) of the last step.

    Args:
        kind: the layer.
        vocab_size: tokens to embed; 0 if a step is a number.
        num_classes: the number of classes.
        features: the features of the layer.
        width: complex channels of csprop's layer; the others have as many as features.
        last: True for one answer after the last step of a sequence, False for one after every step.
        generator: draws the weights.
    """

    def __init__(
        self, kind: NetworkKind, vocab_size: int, num_classes: int, features: int, width: int,
        last: bool, generator: Generator,
    ) -> None:  # fmt: skip
        super().__init__()
        self.last = last
        with torch.random.fork_rng(devices=[]):  # torch's own layers draw from the global generator
            torch.manual_seed(generator.initial_seed())
            if kind in DEPTHS:
                self.layer: nn.Module = CSPLayer(
                    features, width, "resonator", DEPTHS[kind], vocab_size=vocab_size or None
                )
            else:
                self.layer = LAYERS[kind](features, 1)
            if not vocab_size:
                self.enter: nn.Module = nn.Linear(1, features)
            elif kind in DEPTHS:  # its layer embeds tokens itself
                self.enter = nn.Identity()
            else:
                self.enter = nn.Embedding(vocab_size, features)
            self.head = nn.Linear(features, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(self.enter(x))
        y = y[0] if isinstance(self.layer, CSPLayer) else y
        return self.head(y[:, -1] if self.last else y)
