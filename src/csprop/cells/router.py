"""Routers: a token moves the contents of places, h_t = P_t h_{t−1}.

    m, G         places of a group, groups; the width is G · m
    P^k          from the logits maps[k, g, target, source]: while training softmax(logits / τ) over the
                 targets; otherwise a single 1, where the logit is largest                (K, G, m, m)
    k_t          the map that the input chooses, where keys(z_t) is largest               (B, T)
    h_t          the contents of all places; at first 1 in the first place of each group  (B, T, 2, D)

The choice of a map is always hard; while training, it has the gradient of softmax(keys(z)). In a first
layer with a map for each token the choice is the token itself: keys finds the nearest row of the
embedding, and neither is trained. Adjoint: λ_t = g_t + P_{t+1}ᵀ λ_{t+1}, ∂P_t = λ_t h_{t−1}ᵀ.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Generator, Tensor, nn

from csprop.cells.block import Block, Transition, linear
from csprop.cells.options import Router, Shape
from csprop.errors import InputError
from csprop.ops import route
from csprop.ops.scan import wide

SPREAD = 0.1
"""Standard deviation of the logits at the start."""


class RouterBlock(Block):
    """A layer of places. Raises InputError if it needs a map for each token and there are no tokens."""

    cell: Router
    routes = True
    temperature: float = 1.0
    """τ, by which logits are divided while training; the training loop sets it, and it is not saved."""

    by_token: bool = False
    """True if this layer reads tokens, and has a map for each."""

    mixes: bool = False
    """True if maps are mixed while training, by softmax(keys(z)), rather than one chosen: at first that
    tells features apart more surely (docs/notes/layer.md)."""

    def __init__(self, cell: Router, shape: Shape, generator: Generator) -> None:
        self.places = cell.places or shape.width
        if shape.width % self.places:
            complaint = f"does not divide the width, {shape.width}, into groups: choose a divisor"
            raise InputError(complaint, "places", self.places)
        super().__init__(cell, shape, generator)
        count = cell.maps or shape.vocab_size
        if not count:
            raise InputError(
                "maps=0 means one for each token, and this layer has no tokens: choose a number of maps"
            )
        size = (count, shape.width // self.places, self.places, self.places)
        self.maps = nn.Parameter(SPREAD * torch.randn(size, generator=generator))
        self.keys = linear(2 * shape.width, count, generator)

    @torch.no_grad()
    def fill_start(self) -> None:
        """Start with 1 in the first place of each group."""
        self.h0.zero_()
        self.h0[0, :: self.places] = 1

    @property
    def trains_embedding(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """False if the embedding only tells tokens apart."""
        return not self.by_token

    def begin(self, embedding: Float[Tensor, "K 2 D"], generator: Generator) -> None:
        """Let each token choose its own map, unless the number of maps is set."""
        if not self.cell.maps:
            self.read_tokens(embedding)

    @torch.no_grad()
    def read_tokens(self, embedding: Float[Tensor, "K 2 D"]) -> None:
        """Let each token choose its own map, by its row of the embedding.

        z · e_k − |e_k|² / 2 is largest for the row e_k nearest to z; the division keeps it small.
        """
        rows, scale = embedding.flatten(1), math.sqrt(embedding.shape[2])
        self.keys.weight.copy_(rows / scale)
        self.keys.bias.copy_(-rows.square().sum(dim=1) / (2 * scale))
        self.by_token = True

    @torch.no_grad()
    def harden(self) -> None:
        """Set the logits to 1 where they are largest and 0 elsewhere: the hard model stays the same."""
        chosen = self.maps.argmax(dim=2, keepdim=True)
        self.maps.zero_().scatter_(2, chosen, 1.0)

    def targets(self) -> Tensor:
        """Return the channel to which each map sends the content of each channel, (K, D)."""
        count, groups, places, _ = self.maps.shape
        first = torch.arange(groups, device=self.maps.device)[:, None] * places
        return (self.maps.detach().argmax(dim=2) + first).reshape(count, groups * places)

    def transition(self, z: Float[Tensor, "B T 2 D"]) -> Transition:
        """Return a score for each map, (B, T, K), and nothing that enters."""
        return wide(self.keys(z.flatten(2))), None

    def recur(
        self,
        transition: Transition,
        state: Float[Tensor, "B 2 D"],
        reset: Bool[Tensor, "B T"] | None,
        coupled: Tensor | None,
    ) -> tuple[Float[Tensor, "B T 2 D"], Float[Tensor, "B 2 D"]]:
        """Return all states, and the last one: soft while training, hard otherwise."""
        scores, _ = transition
        choice, state, start = scores.argmax(dim=2), wide(state), wide(self.start)
        if self.training:
            maps = torch.softmax(wide(self.maps) / self.temperature, dim=2)
            weights = None if self.by_token else self._weights(scores, choice)
            h = route.soft(maps, choice, state, reset, start, weights)
        else:
            h = route.hard(self.targets(), choice, state, reset, start)
        return h, h[:, -1] if h.shape[1] else state

    def _weights(self, scores: Float[Tensor, "B T K"], choice: Tensor) -> Float[Tensor, "B T K"]:
        """Return a single 1 with the gradient of a softmax; or the softmax, if maps are mixed."""
        soft = torch.softmax(scores, dim=2)
        if self.mixes:
            return soft
        return route.ones_at(choice, scores.shape[2], scores) + (soft - soft.detach())

    def advance(self, z: Tensor, state: Tensor, coupled: Tensor | None = None) -> Tensor:
        """Return the state after one more step, which is hard."""
        scores, _ = self.transition(z)
        return route.hard(self.targets(), scores.argmax(dim=2), wide(state))[:, 0]

    @property
    def kernel_options(self) -> dict[str, int | str]:
        sizes = {"places": self.places, "choices": len(self.maps), "by_token": self.by_token}
        return {**sizes, "bounded_angle": 1, "decay": "none"}


def lead(scores: Tensor, dim: int) -> Tensor:
    """Return the difference between the largest and the second largest score."""
    best = torch.cat([scores, torch.full_like(scores.narrow(dim, 0, 1), -torch.inf)], dim).topk(2, dim)
    first, second = best.values.unbind(dim)
    return first - second
