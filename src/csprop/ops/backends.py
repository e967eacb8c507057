"""Which implementation computes: `reference`, `torch` or `native`.

`native` is for CPU tensors; what it does not take, `torch` computes.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from csprop.errors import InputError

BACKENDS = ("reference", "torch", "native")
_chosen: ContextVar[str | None] = ContextVar("csprop_backend", default=None)


def backend() -> str:
    """Return the backend in force: from `use_backend`, else CSPROP_BACKEND, else the CPU's fastest.

    While a model is exported to ONNX it is `reference`, whose steps can be seen.
    """
    if exporting():
        return "reference"
    return asked_for() or ("torch" if _why_not("native") else "native")


def exporting() -> bool:
    """Return True inside `torch.onnx.export`, which needs operations that ONNX has."""
    onnx = sys.modules.get("torch.onnx")
    return onnx is not None and onnx.is_in_onnx_export()


def asked_for() -> str | None:
    """Return the backend that somebody chose, if anybody did."""
    if chosen := _chosen.get():
        return chosen
    if named := os.environ.get("CSPROP_BACKEND"):
        return _usable(named, f"CSPROP_BACKEND={named}")
    return None


def as_before(stored: str) -> str:
    """Return the backend to resume with: `stored`, unless another was chosen or it cannot run here."""
    return asked_for() or (backend() if _why_not(stored) else stored)


# torch.compile cannot trace a context variable: a compiled model keeps the backend it met first. This
# is what torch.compiler.assume_constant_result sets, without its import of several seconds.
for _function in (backend, exporting):
    _function._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


@contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Run everything inside with one backend: `with use_backend("reference"): …`."""
    token = _chosen.set(_usable(name, f"backend {name!r}"))
    try:
        yield
    finally:
        _chosen.reset(token)


def _usable(name: str, given: str) -> str:
    if name not in BACKENDS:
        raise InputError(f"{given}: there is no such backend: choose from {', '.join(BACKENDS)}")
    if why_not := _why_not(name):
        raise InputError(f"{given}: the kernel is {why_not}")
    return name


def _why_not(name: str) -> str:
    """Return the reason why a backend cannot be used here; empty if it can."""
    if name == "native":
        from csprop.ops import native

        return native.WHY_NOT
    return ""
