"""Random draws for tasks, as torch makes them: by torch, or by NumPy where torch is not imported.

Both give the same numbers. torch's generator on a CPU is the Mersenne Twister, seeded with the lower
32 bits of the seed. A whole number below n is the next 32 bits modulo n. A fraction is the lower 53
bits of the next 64, or for float32 24 bits of the next 32. Permutations are by Fisher and Yates.
"""

import hashlib
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csprop.errors import InputError

if TYPE_CHECKING:
    from torch import Generator

Whole = NDArray[np.int64]
Shape = tuple[int, ...]


class TorchDraws:
    """Random numbers from a generator of torch."""

    def __init__(self, generator: "Generator") -> None:
        self.generator = generator

    def below(self, limit: int, shape: Shape, least: int = 0) -> Whole:
        """Return whole numbers from `least` to `limit` − 1; there must be fewer than 2^28 of them."""
        import torch

        return torch.randint(least, limit, shape, generator=self.generator).numpy()

    def fractions(self, shape: Shape, single: bool = False) -> NDArray[np.floating]:
        """Return numbers from 0 to below 1, in float64, or in float32 where `single` is set."""
        import torch

        kind = torch.float32 if single else torch.float64
        return torch.rand(shape, generator=self.generator, dtype=kind).numpy()

    def permutation(self, size: int) -> Whole:
        """Return the numbers from 0 to `size` − 1 in a random order."""
        import torch

        return torch.randperm(size, generator=self.generator).numpy()


class NumpyDraws:
    """The random numbers of a new generator of torch with this seed, as `TorchDraws` returns them."""

    def __init__(self, seed: int) -> None:
        self.source = np.random.RandomState(seed % 2**32)

    def _words(self, count: int) -> Whole:
        return self.source.randint(2**32, size=count, dtype=np.uint32).astype(np.int64)

    def below(self, limit: int, shape: Shape, least: int = 0) -> Whole:
        if limit - least >= 2**28:
            raise InputError("torch draws numbers beyond 2^28 in another way")
        return self._words(int(np.prod(shape))).reshape(shape) % (limit - least) + least

    def fractions(self, shape: Shape, single: bool = False) -> NDArray[np.floating]:
        count = int(np.prod(shape))
        if single:
            return ((self._words(count) % 2**24) / 2.0**24).astype(np.float32).reshape(shape)
        high, low = self._words(2 * count).reshape(count, 2).T
        return (((high % 2**21) << 32 | low) / 2.0**53).reshape(shape)

    def permutation(self, size: int) -> Whole:
        order = list(range(size))
        words = self._words(max(0, size - 1)) % np.arange(size, 1, -1)
        for here, step in enumerate(words.tolist()):
            order[here], order[here + step] = order[here + step], order[here]
        return np.array(order, np.int64)


Draws = TorchDraws | NumpyDraws


def derive_seed(seed: int, purpose: str, epoch: int = 0) -> int:
    """Return a seed for (seed, purpose, epoch); no two uses share a random state."""
    digest = hashlib.sha256(f"{seed}/{purpose}/{epoch}".encode()).digest()
    return int.from_bytes(digest[:8], "big")
