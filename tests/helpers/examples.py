"""The scripts that made the example files."""

import runpy
from pathlib import Path
from types import SimpleNamespace

SCRIPTS = Path(__file__).parents[2] / "examples"


def script(name: str) -> SimpleNamespace:
    """Return the names that a script of `examples/` defines."""
    return SimpleNamespace(**runpy.run_path(str(SCRIPTS / f"{name}.py")))
