"""Checks of a user's own layer before it is compared: it must see the past of its sequence alone."""

import inspect

import torch
from torch import Tensor, nn

from csprop.errors import InputError
from csprop.files import digest
from csprop_lab.layers import OWN, Make
from csprop_lab.study.protocols import Effort

PROBED = (9, 100)
"""Lengths at which it is tried."""


def register(name: str, factory: Make, effort: Effort) -> str:
    """Make a layer of one's own known by a name in this process, and return its version.

    The version is a digest of its source and of its outputs with other weights than the first ones, so
    rows of an earlier version are not taken for rows of a changed one.

    Raises:
        InputError: it is not a layer of features, fails, looks ahead, or mixes sequences.
    """
    with torch.random.fork_rng(devices=[]):  # as in a `Frame`
        torch.manual_seed(0)
        layer = _make(name, factory, effort.width)
        x = torch.randn(2, max(PROBED), effort.width)
        changed = torch.randn_like(x)
        _try(name, layer, x[:, : min(PROBED)])
        with torch.no_grad():
            for weight in layer.parameters():  # some begin at 0 and would show nothing
                if weight.is_floating_point():
                    weight += 0.1 * torch.randn_like(weight)
            layer.eval()
            for steps in PROBED:
                _check_past(name, layer, x[:, :steps], changed[:, :steps])
            values = [f"{value:.2e}" for value in layer(x).flatten().tolist()]
    OWN[name] = factory
    return digest(f"{_source(factory)}{values}".encode())[:8]


def _check_past(name: str, layer: nn.Module, x: Tensor, changed: Tensor) -> None:
    """Check that every step depends on the past of its own sequence alone."""
    y, half = layer(x), x.shape[1] // 2
    later, other = x.clone(), x.clone()
    later[:, half:], other[1] = changed[:, half:], changed[1]
    if not _close(y, layer(x)):
        raise InputError(f"{name}: gives something else if it is called again: keep no state")
    if not _close(y[:, :half], layer(later)[:, :half]):
        raise InputError(f"{name}: a step depends on later ones: let it see the past alone")
    if not _close(y[0], layer(other)[0]):
        raise InputError(f"{name}: sequences of a batch depend on each other: keep them apart")


def _make(name: str, factory: Make, width: int) -> nn.Module:
    try:
        layer, another = factory(width), factory(width)
    except Exception as error:
        raise InputError(f"{name}: cannot be made from a width alone: {_describe(error)}") from error
    if not isinstance(layer, nn.Module):
        kind = type(layer).__name__
        raise InputError(f"{name}: makes a value of type {kind} of a width: make an nn.Module")
    if layer is another or {id(each) for each in layer.parameters()} & set(
        map(id, another.parameters())
    ):
        raise InputError(f"{name}: gives the same layer again: make a new one on every call")
    return layer


def _try(name: str, layer: nn.Module, x: Tensor) -> None:
    """A forward and a backward pass, as training takes them."""
    try:
        y = layer.train()(x)
        if isinstance(y, Tensor) and y.requires_grad:
            y.sum().backward()
    except Exception as error:
        raise InputError(f"{name}: fails on features {tuple(x.shape)}: {_describe(error)}") from error
    if not isinstance(y, Tensor) or (y.shape, y.dtype) != (x.shape, x.dtype):
        given = f"{y.dtype} {tuple(y.shape)}" if isinstance(y, Tensor) else f"a {type(y).__name__}"
        raise InputError(f"{name}: gives {given} for {x.dtype} {tuple(x.shape)}: give the same alone")
    if not y.isfinite().all():
        raise InputError(f"{name}: gives numbers that are not finite")


def _close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-3, atol=1e-4)


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _source(factory: Make) -> str:
    try:
        return inspect.getsource(factory)
    except (OSError, TypeError):
        return ""
