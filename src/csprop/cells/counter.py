"""Counters: whole numbers to which every token adds.

    h_t = h_{t−1} + round(Re z_t),  h_0 = i

    h_t          c_t + i with a whole count c_t, exact up to 2^24 in float32            (B, T, 2, D)
    output       n / (|n| + 1e-8), n = h_t + σ(g) ⊙ z_t

The phase of c + i distinguishes zero, positive and negative counts with the same margin, however large
the count. Rounding has the gradient of Re z.

Increments are hard to learn while they are being rounded: every change of an increment changes all
later counts. So the increments of a first layer are not trained. Its channels have the increments that
a task is likely to need, small whole numbers for each token, the simplest first, and training chooses
among the channels.

The adjoint is a sum from the end: λ_t = g_t + λ_{t+1}, ∂Re z_t = Re λ_t.
"""

import itertools
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from csprop.cells.block import Block, Transition, add_skip, unit
from csprop.cells.options import Counter, Shape
from csprop.ops.counts import exact, whole
from csprop.ops.scan import wide

LARGEST = 5
"""Size of the largest increments, Σ|n| over the tokens."""
MOST_TRIED = 4096
"""Increments of one size that are listed, where there are many tokens."""
FRACTION = 0.45
"""Largest real part, up to its sign, of a channel that counts nothing: it is rounded to 0."""


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
            choose_increments(embedding, generator)

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

    @property
    def kernel_options(self) -> dict[str, int | str]:
        return {"bounded_angle": 1, "decay": "count", "norm": "complex"}


def _check_counts(
    h: Float[Tensor, "B T 2 D"], before: Float[Tensor, "B T 2 D"], u: Float[Tensor, "B T 2 D"]
) -> Float[Tensor, "B T 2 D"]:
    """Return the states if their counts are exact; raise InputError otherwise."""
    (counts, line), added = h.unbind(2), u[:, :, 0].expand_as(h[:, :, 0])
    return torch.stack([exact(counts, before[:, :, 0].to(counts), added), line], dim=2)


def forms(tokens: int) -> Iterator[list[tuple[int, ...]]]:
    """Yield lists of increments of all tokens, by their size Σ|n|, from 1 on.

    At size 1, a channel counts one token. At larger sizes some numbers are positive and some negative,
    so a count can return to 0, and no number divides all of them. Of n and −n, one is listed.
    """
    for size in range(1, LARGEST + 1):
        listed = itertools.islice(_list_size(tokens, size), MOST_TRIED)
        yield [form for form in listed if size == 1 or (min(form) < 0 and _is_primitive(form))]


def _list_size(tokens: int, size: int) -> Iterator[tuple[int, ...]]:
    """Yield increments whose first nonzero number is positive."""
    for chosen in range(1, min(tokens, size) + 1):
        for places in itertools.combinations(range(tokens), chosen):
            for cuts in itertools.combinations(range(1, size), chosen - 1):
                sizes = [b - a for a, b in itertools.pairwise((0, *cuts, size))]
                for signs in itertools.product((1, -1), repeat=chosen - 1):
                    form = [0] * tokens
                    for place, number, sign in zip(places, sizes, (1, *signs), strict=True):
                        form[place] = sign * number
                    yield tuple(form)


def _is_primitive(form: tuple[int, ...]) -> bool:
    return not any(all(each % divisor == 0 for each in form) for divisor in range(2, max(form) + 1))


@torch.no_grad()
def choose_increments(embedding: Float[Tensor, "V 2 D"], generator: Generator) -> None:
    """Give the channels their increments: three quarters count, one quarter only tells tokens apart."""
    tokens, _, width = embedding.shape
    reading = width // 4
    embedding[:, 0, :reading].uniform_(-FRACTION, FRACTION, generator=generator)
    counting: list[tuple[int, ...]] = []
    for listed in forms(tokens):
        order = torch.randperm(len(listed), generator=generator).tolist()
        counting += [listed[each] for each in order]
        if len(counting) >= width - reading:
            break
    for channel in range(reading, width):
        sign = 1 - 2 * int(torch.randint(2, (1,), generator=generator))
        form = counting[(channel - reading) % len(counting)]
        embedding[:, 0, channel] = torch.tensor([sign * each for each in form])
