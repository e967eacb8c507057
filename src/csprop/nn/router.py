"""A layer that routes: h_t = P_t D_t h_{t−1}, a block without gates whose channels are places.

symbol       here
m, G         places of a group, groups; the width is G · m
P^k          from the logits maps[k, g, target, source]: while training softmax(logits / τ) over the
             targets; otherwise a single 1, where the logit is largest                 (K, G, m, m)
k_t          the map that the input chooses, where keys(z_t) is largest                (B, T)
D_t          the phases e^{iθ_t} of rotate="state": a content turns before it moves    (B, T, 2, 1 or D)
h_t          the contents of all places                                                (B, T, 2, D)

The choice of a map is always hard; while training, its gradient is that of softmax(keys(z)). In a first
layer with a map for each token the choice is the token itself: keys finds the nearest row of the
embedding, and neither is trained.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Generator, Tensor, nn

from csprop.errors import InputError
from csprop.nn.block import Block, Transition
from csprop.nn.config import ModelOptions
from csprop.nn.layers import linear, polar
from csprop.ops import route
from csprop.ops.planes import wide

SPREAD = 0.1
"""Standard deviation of the logits at the start."""


class Router(Block):
    """A block whose transition moves the contents of places.

    Raises InputError where the number of maps is to be that of the tokens, and that is not given.
    """

    temperature: float = 1.0
    """τ, by which logits are divided while training; the training loop sets it, and it is not saved."""

    by_token: bool = False
    """Whether this layer reads tokens, and has a map for each."""

    mixes: bool = False
    """Whether maps are mixed while training, by softmax(keys(z)), rather than one chosen: at first that
    tells features apart more surely (docs/notes/layer.md)."""

    def __init__(self, options: ModelOptions, generator: Generator, vocab_size: int = 0) -> None:
        super().__init__(options, generator)
        count = options.maps or vocab_size
        if not count:
            raise InputError(
                "maps=0 means one for each token, and this layer has no tokens: write maps"
            )
        groups = options.width // options.places
        shape = (count, groups, options.places, options.places)
        self.maps = nn.Parameter(SPREAD * torch.randn(shape, generator=generator))
        self.keys = linear(2 * options.width, count, generator)

    @torch.no_grad()
    def read_tokens(self, embedding: Float[Tensor, "K 2 D"]) -> None:
        """Let the map of a token be chosen by its row of the embedding, now and while training.

        z · e_k − |e_k|² / 2 is largest for the row e_k that is nearest to z, however many rows there
        are; the division keeps the numbers small.
        """
        rows, scale = embedding.flatten(1), math.sqrt(embedding.shape[2])
        self.keys.weight.copy_(rows / scale)
        self.keys.bias.copy_(-rows.square().sum(dim=1) / (2 * scale))
        self.by_token = True

    @torch.no_grad()
    def harden(self) -> None:
        """Replace the logits of maps by those of maps with single 1s: the hard model stays the same."""
        chosen = self.maps.argmax(dim=2, keepdim=True)
        self.maps.zero_().scatter_(2, chosen, 1.0)

    def targets(self) -> Tensor:
        """The channel to which each map sends the content of each channel, (K, D)."""
        count, groups, places, _ = self.maps.shape
        first = torch.arange(groups, device=self.maps.device)[:, None] * places
        return (self.maps.detach().argmax(dim=2) + first).reshape(count, groups * places)

    def transition(self, z: Float[Tensor, "B T 2 D"]) -> Transition:
        """What the input says: a score for each map, (B, T, K), and the phases, if there are any."""
        scores = wide(self.keys(z.flatten(2)))
        if self.options.rotate == "none":
            return scores, None
        theta = self.theta(z)
        return scores, polar(torch.ones_like(theta), theta)

    def recur(
        self,
        transition: Transition,
        state: Float[Tensor, "B 2 D"],
        reset: Bool[Tensor, "B T"] | None,
        coupled: Tensor | None,
    ) -> tuple[Float[Tensor, "B T 2 D"], Float[Tensor, "B 2 D"]]:
        scores, _ = transition
        choice, state = scores.argmax(dim=2), wide(state)
        if self.training:
            maps = torch.softmax(wide(self.maps) / self.temperature, dim=2)
            weights = None if self.by_token else self._weights(scores, choice)
            h = route.soft(maps, choice, state, reset, wide(self.start), weights)
        else:
            h = route.hard(self.targets(), choice, state, reset, wide(self.start))
        return h, h[:, -1] if h.shape[1] else state

    def _weights(self, scores: Float[Tensor, "B T K"], choice: Tensor) -> Float[Tensor, "B T K"]:
        """A single 1, with the gradient of a softmax; or how much of each map there is."""
        soft = torch.softmax(scores, dim=2)
        if self.mixes:
            return soft
        return route.ones_at(choice, scores.shape[2], scores) + (soft - soft.detach())

    def advance(
        self,
        z: Float[Tensor, "B 1 2 D"],
        state: Float[Tensor, "B 2 D"],
        coupled: Tensor | None = None,
    ) -> Float[Tensor, "B 2 D"]:
        scores, _ = self.transition(z)
        return route.hard(self.targets(), scores.argmax(dim=2), wide(state))[:, 0]


def lead(scores: Tensor, dim: int) -> Tensor:
    """By how much the largest of some scores leads the second, which decides what is chosen."""
    best = torch.cat([scores, torch.full_like(scores.narrow(dim, 0, 1), -torch.inf)], dim).topk(2, dim)
    first, second = best.values.unbind(dim)
    return first - second
