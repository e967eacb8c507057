"""Random number generators."""

import hashlib

from torch import Generator


def generator(seed: int, purpose: str, epoch: int = 0) -> Generator:
    """A generator seeded by (seed, purpose, epoch), so that no two uses share a random state."""
    digest = hashlib.sha256(f"{seed}/{purpose}/{epoch}".encode()).digest()
    return Generator().manual_seed(int.from_bytes(digest[:8], "big"))
