"""The scan as a Triton kernel, for CUDA tensors: `kernels.py` has its programs, `launch.py` calls them.

Triton is imported when the kernel is first called, and torch not before. With TRITON_INTERPRET=1
Triton's interpreter runs the kernel on the CPU. The tests do that; no test has run on a GPU.
"""

import os
from functools import cache
from importlib.util import find_spec


def interpreted() -> bool:
    """Return True if Triton's interpreter is asked for, which takes CPU tensors."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "y", "yes")


@cache
def installed() -> bool:
    """Return True if Triton can be imported."""
    return find_spec("triton") is not None


def why_not() -> str:
    """Return the reason why the kernel cannot be used here; empty if it can."""
    if not installed():
        return "not installed: pip install 'csprop[triton]'"
    if interpreted():
        return ""
    import torch

    return "" if torch.cuda.is_available() else "without a CUDA device to run on"
