"""The laboratory: the paper's study, the authors' model, published layers, comparisons and benchmarks.

It uses csprop, and csprop never imports it. Its commands (reproduce, compare, bench) join csprop's
command line through the entry points in pyproject.toml.

Beside csprop's public names it uses the training loop (csprop.training), tasks and packed rows
(csprop.tasks, csprop.data), machines (csprop.automata), parts of pages and of the command line
(csprop.report, csprop.cli), and csprop.files; csprop_lab.released also uses parts of its cells.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from csprop_lab.pages.compare import compare

__all__ = ["compare"]


def __getattr__(name: str) -> Any:
    """Import `compare` when it is first used: the help of a command must not wait for torch."""
    if name == "compare":
        from csprop_lab.pages.compare import compare

        return compare
    raise AttributeError(f"module 'csprop_lab' has no attribute {name!r}")
