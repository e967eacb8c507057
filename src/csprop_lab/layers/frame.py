"""The network that every compared layer is put into: the same embedding, norms, MLPs and decoder."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from csprop_lab.layers import layer


@dataclass(frozen=True, kw_only=True)
class FrameConfig:
    """A layer of features and the size of the network around it."""

    layer: str
    """Its name, as `csprop_lab.layers.layer` takes it."""
    vocab_size: int
    num_classes: int
    width: int
    """The number of features."""
    depth: int
    """The number of blocks."""
    version: str = ""
    """Tells two layers of one's own with the same name apart."""


class Frame(nn.Module):
    """Tokens (B, T) to scores (B, T, classes).

    Each block adds to its input what the layer, and then an MLP with one hidden layer of twice the
    width, make of it; both see their input normalised.
    """

    routers = ()  # what the training loop cools in csprop's own models

    def __init__(self, config: FrameConfig, generator: Generator) -> None:
        super().__init__()
        width, make = config.width, layer(config.layer)
        with torch.random.fork_rng(devices=[]):  # torch's own layers draw from the global generator
            torch.manual_seed(generator.initial_seed())
            self.embedding = nn.Embedding(config.vocab_size, width)
            self.blocks = nn.Sequential(*(Block(make(width), width) for _ in range(config.depth)))
            self.norm = nn.LayerNorm(width)
            self.decoder = nn.Linear(width, config.num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.decoder(self.norm(self.blocks(self.embedding(tokens))))


class Block(nn.Module):
    """A layer and an MLP, each behind a norm and added to its input."""

    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.before, self.layer = nn.LayerNorm(width), layer
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.layer(self.before(x))
        return x + self.mlp(x)
