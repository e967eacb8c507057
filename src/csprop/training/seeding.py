"""Random number generators."""

from torch import Generator

from csprop.data.draws import derive_seed


def generator(seed: int, purpose: str, epoch: int = 0) -> Generator:
    """Return a generator seeded by (seed, purpose, epoch); no two uses share a random state."""
    return Generator().manual_seed(derive_seed(seed, purpose, epoch))
