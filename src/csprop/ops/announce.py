"""The operators of csprop, known to torch from the moment that both are imported, in either order.

A saved program (`torch.export.load`) looks for `torch.ops.csprop.blocks`, whoever loads it. To import
the operators takes torch, which `import csprop` alone must not wait for: a stand-in for their namespace
imports them when one of them is asked for. It is put in place at once where torch is there already, and
else by a finder of modules that steps aside as soon as torch is imported.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Namespace:
    """Stands for `torch.ops.csprop` until it is asked for an operator."""

    def __getattr__(self, name: str) -> Any:
        operators = sys.modules["torch"].ops
        if operators.__dict__.get("csprop") is self:
            del operators.csprop  # torch then makes the namespace itself
        for module in ("csprop.ops.fused", "csprop.ops.counts", "csprop.ops.route"):
            import_module(module)
        return getattr(operators.csprop, name)


class _AfterTorch:
    """A finder of modules that lets the import of torch be followed by `_stand_in`."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch":
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        found = (finder.find_spec(name, path, target) for finder in others)
        spec = next(filter(None, found), None)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:  # to look for torch is not yet to import it
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            _stand_in(module)

        spec.loader.exec_module = exec_module
        return spec


def _stand_in(torch: ModuleType) -> None:
    if "csprop" not in torch.ops.__dict__:
        torch.ops.csprop = _Namespace()


def announce() -> None:
    """Let `torch.ops.csprop` have its operators, without importing torch."""
    torch = sys.modules.get("torch")
    if torch is not None:
        _stand_in(torch)
    else:
        sys.meta_path.insert(0, _AfterTorch())
