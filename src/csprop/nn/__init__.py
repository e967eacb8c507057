"""The model: configuration, block, decoders, coupling; and `CSPBlock`, one layer of features."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from csprop.nn.feature_block import CSPBlock

__all__ = ["CSPBlock"]


def __getattr__(name: str) -> Any:  # the options can be had without torch
    if name == "CSPBlock":
        from csprop.nn.feature_block import CSPBlock

        return CSPBlock
    raise AttributeError(f"module 'csprop.nn' has no attribute {name!r}")
