"""Tests again, in a process that does not use the instructions of this processor."""

import os
import subprocess
import sys


def passes_with_the_plain_kernel(file: str, test: str) -> None:
    """Run one test of a file there, and fail as it does."""
    options = ["-q", "-n", "0", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, f"{file}::{test}"]
    plain = os.environ | {"CSPROP_PLAIN": "1"}
    done = subprocess.run(command, env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
