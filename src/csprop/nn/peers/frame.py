"""The network that every compared layer is put into: the same embedding, norms, MLPs and decoder."""

from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn


class Frame(nn.Module):
    """Tokens (B, T) to scores (B, T, classes).

    Each of `depth` blocks adds to its input what the layer, and then an MLP with one hidden layer of
    twice the width, make of it; both see their input normalised.

    Args:
        layer: makes a layer of features, (B, T, width) to (B, T, width), from its width.
        vocab_size: the number of tokens.
        num_classes: the number of classes.
        width: the number of features.
        depth: the number of blocks.
        generator: draws all weights.
    """

    routers = ()  # what the training loop cools in csprop's own models

    def __init__(
        self,
        layer: Callable[[int], nn.Module],
        vocab_size: int,
        num_classes: int,
        width: int,
        depth: int,
        generator: Generator,
    ) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):  # torch's own layers draw from the global generator
            torch.manual_seed(generator.initial_seed())
            self.embedding = nn.Embedding(vocab_size, width)
            self.blocks = nn.Sequential(*(Block(layer(width), width) for _ in range(depth)))
            self.norm = nn.LayerNorm(width)
            self.decoder = nn.Linear(width, num_classes)

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
