"""Small networks around one layer of features, csprop's or another, to be compared with each other."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor, nn

from csprop import CSPLayer
from csprop_lab.layers.basic import LAYERS

NetworkKind = Literal["csprop", "csprop, two blocks", "LSTM", "GRU", "SSM [0, 1]"]
DEPTHS: dict[str, int] = {"csprop": 1, "csprop, two blocks": 2}
"""Blocks of csprop's layer."""


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """A network and its size."""

    kind: NetworkKind
    vocab_size: int
    """Tokens to embed; 0 if a step is a number."""
    num_classes: int
    features: int
    width: int
    """Complex channels of csprop's layer; the others have as many as features."""
    last: bool
    """True for one answer after the last step of a sequence, False for one after every step."""


class Network(nn.Module):
    """Tokens (B, T) or numbers (B, T, 1) to scores (B, T, classes); (B, classes) of the last step."""

    def __init__(self, config: NetworkConfig, generator: Generator) -> None:
        super().__init__()
        self.last, features = config.last, config.features
        with torch.random.fork_rng(devices=[]):  # torch's own layers draw from the global generator
            torch.manual_seed(generator.initial_seed())
            if config.kind in DEPTHS:
                embedded = config.vocab_size or None
                self.layer: nn.Module = CSPLayer(
                    features, config.width, depth=DEPTHS[config.kind], vocab_size=embedded
                )
            else:
                self.layer = LAYERS[config.kind](features, 1)
            if not config.vocab_size:
                self.enter: nn.Module = nn.Linear(1, features)
            elif config.kind in DEPTHS:  # its layer embeds tokens itself
                self.enter = nn.Identity()
            else:
                self.enter = nn.Embedding(config.vocab_size, features)
            self.head = nn.Linear(features, config.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(self.enter(x))
        y = y[0] if isinstance(self.layer, CSPLayer) else y
        return self.head(y[:, -1] if self.last else y)
