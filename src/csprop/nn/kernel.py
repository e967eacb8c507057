"""The compiled kernel for whole models: it takes only models built from unmodified built-in parts."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from csprop.errors import InputError
from csprop.ops import devices
from csprop.ops.native import forward
from csprop.ops.native.forward import Stepper
from csprop.ops.native.tensors import fits

if TYPE_CHECKING:
    from csprop.nn.model import CSP


def has_hooks(modules: Iterable[nn.Module]) -> bool:
    """Return True if a call of one of these modules does more than its `forward`."""
    return bool(nn.modules.module._has_any_global_hook()) or any(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        for module in modules
    )


def untouched(parts: Iterable[nn.Module], kinds: Sequence[type[nn.Module]]) -> bool:
    """Return True if parts are of these very types, with no hook and no method of their own."""
    parts = list(parts)
    return not has_hooks(parts) and all(
        type(part) in kinds and _methods(type(part)).isdisjoint(part.__dict__) for part in parts
    )


@cache
def _methods(kind: type[nn.Module]) -> frozenset[str]:
    """The names of its methods, which an instance may replace by its own."""
    return frozenset(name for name in dir(kind) if callable(getattr(kind, name)))


def propagate(
    model: "CSP", tokens: Tensor, state: Tensor | None, reset: Tensor | None
) -> tuple[Tensor, Tensor] | None:
    """Return the scores after every token and the last states, or None to leave it to torch.

    A subclass, or a model with a part that was replaced or has a hook, is left to torch.

    Raises:
        InputError: a token is outside of the vocabulary, or a count is not exact.
    """
    from csprop.nn.describe import describe_model, unreadable

    if devices.traced() or not tokens.numel() or unreadable(model) or not fits(model.embedding, state):
        return None
    routers = model.routers
    hard = not model.training and bool(routers)
    if hard and torch.is_grad_enabled():  # the adjoint of the kernel is of soft maps
        return None
    if any(router.mixes or router.temperature != routers[0].temperature for router in routers):
        return None
    try:
        return forward.propagate(describe_model(model), tokens, state, reset, hard)
    except InputError:
        for bound in tokens.aminmax():
            model.check_token(int(bound))
        raise


def make_stepper(model: "CSP", state: Tensor) -> Stepper | None:
    """Return the model laid out for single steps with hard maps, or None to leave them to torch."""
    from csprop.nn.describe import describe_model, unreadable

    if unreadable(model) or not fits(model.embedding, state):
        return None
    return Stepper(describe_model(model), state)
