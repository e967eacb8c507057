"""The compiled kernel for a whole model: it takes only what it knows to the letter."""

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor, nn


def has_hooks(modules: Iterable[nn.Module]) -> bool:
    """Return True if something else is to happen where one of these modules is called."""
    return bool(nn.modules.module._has_any_global_hook()) or any(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        for module in modules
    )


def untouched(parts: Iterable[nn.Module], kinds: Sequence[type[nn.Module]]) -> bool:
    """Return True if all parts are exactly of these types, without hooks or replaced methods."""
    parts = list(parts)
    return not has_hooks(parts) and all(
        type(part) in kinds and "forward" not in part.__dict__ for part in parts
    )


def propagate(
    model: Any, tokens: Tensor, state: Tensor, reset: Tensor | None
) -> tuple[Tensor, Tensor] | None:
    """Return the scores and the last states, or None if the kernel does not know the model."""
    return None


def make_stepper(model: Any, state: Tensor) -> Any:
    """Return the model laid out for single steps, or None if the kernel does not know it."""
    return None
