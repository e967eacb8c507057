"""The same computation with several threads, or without the instructions of this processor."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch

RUN = """
import sys, pytest
from csprop.ops import native
assert native.TARGET == "plain", native.TARGET
sys.exit(pytest.main(sys.argv[1:]))
"""


def in_threads(compute: Callable[[], Any]) -> list[Any]:
    """Return the results with one, two and three threads."""
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        try:
            results.append(compute())
        finally:
            torch.set_num_threads(1)
    return results


def passes_with_the_plain_kernel(file: str, test: str) -> None:
    """Run one test of a file in a process that uses plain instructions, and fail as it does."""
    options = ["-q", "-n", "0", "-p", "no:cacheprovider"]
    command = [sys.executable, "-c", RUN, *options, f"{file}::{test}"]
    plain = os.environ | {"CSPROP_PLAIN": "1"}
    done = subprocess.run(command, env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
