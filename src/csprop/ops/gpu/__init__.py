"""The scan as a Triton kernel, for CUDA tensors.

    kernels.py    what a program of the kernel does: one row and a block of channels, all steps
    launch.py     the kernel called with tensors

Triton is imported when the kernel is first called; nothing here needs torch before that. With
TRITON_INTERPRET=1 Triton's interpreter runs the kernel on the CPU, step by step in NumPy. The tests do
that: the kernel has been tested there, not on a GPU.
"""

import os
from functools import cache
from importlib.util import find_spec


def interpreted() -> bool:
    """Whether Triton's interpreter is asked for, which takes CPU tensors."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "y", "yes")


@cache
def installed() -> bool:
    """Whether Triton could be imported."""
    return find_spec("triton") is not None


def why_not() -> str:
    """Why the kernel cannot be used here; empty if it can."""
    if not installed():
        return "not installed: pip install 'csprop[triton]'"
    if interpreted():
        return ""
    import torch

    return "" if torch.cuda.is_available() else "without a CUDA device to run on"
