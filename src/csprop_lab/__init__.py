"""The laboratory: the paper's study, published layers, comparisons and benchmarks.

It uses csprop, and csprop never imports it. Its commands (reproduce, compare, bench) join csprop's
command line through the entry points in pyproject.toml.
"""

from csprop_lab.pages.compare import compare

__all__ = ["compare"]
