"""Where random numbers come from."""

import hashlib

from torch import Generator


def generator(seed: int, purpose: str, epoch: int = 0) -> Generator:
    """A random generator of its own for every use."""
    digest = hashlib.sha256(f"{seed}/{purpose}/{epoch}".encode()).digest()
    return Generator().manual_seed(int.from_bytes(digest[:8], "big"))
