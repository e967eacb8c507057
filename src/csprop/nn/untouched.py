"""A check that modules are exactly what csprop made: nothing replaced, subclassed or hooked."""

from collections.abc import Iterable
from functools import cache
from types import FunctionType

import torch
from torch import nn

TORCH = (nn.Linear, nn.LayerNorm, nn.ModuleList)


def has_hooks(modules: Iterable[nn.Module]) -> bool:
    """Return True if a call of one of these modules does more than its `forward`."""
    return bool(nn.modules.module._has_any_global_hook()) or any(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        for module in modules
    )


def untouched(modules: Iterable[nn.Module]) -> bool:
    """Return True if modules are built-in, without hooks and without methods from elsewhere."""
    modules = list(modules)
    kinds = {type(module) for module in modules}
    own = [kind for kind in kinds if kind.__module__.startswith(("csprop.cells.", "csprop.nn."))]
    if has_hooks(modules) or not kinds <= {*TORCH, *own}:
        return False
    if torch.compiler.is_compiling():  # torch.compile cannot look at methods
        return True
    return all(map(_has_own_methods, own)) and all(
        _methods(type(module)).isdisjoint(module.__dict__) for module in modules
    )


def _has_own_methods(kind: type) -> bool:
    """Return True if a class of csprop has the methods that it was written with."""
    return all(
        method.__module__ == each.__module__
        for each in kind.__mro__
        if each.__module__.startswith("csprop.")
        for value in vars(each).values()
        if isinstance(method := getattr(value, "fget", value), FunctionType)
    )


@cache
def _methods(kind: type[nn.Module]) -> frozenset[str]:
    """Return the names of its methods, which an instance may replace by its own."""
    return frozenset(name for name in dir(kind) if callable(getattr(kind, name)))
