"""The increments of a first layer of counters: small whole numbers for each token, the simplest first.

Increments are hard to learn while they are being rounded: every change of an increment changes all
later counts. So the increments of a first layer are not trained. Its channels have the increments that
a task is likely to need, and training chooses among the channels.
"""

import itertools
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Generator, Tensor

LARGEST = 5
"""Size of the largest increments, Σ|n| over the tokens."""
MOST_TRIED = 4096
"""Increments of one size that are listed, where there are many tokens."""
FRACTION = 0.45
"""Largest real part, up to its sign, of a channel that counts nothing: it is rounded to 0."""


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
def prepare(embedding: Float[Tensor, "V 2 D"], generator: Generator) -> None:
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
