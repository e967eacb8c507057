"""The compiled library: how it is found and called; and models as torch traces them."""

import math
import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
import torch

from csprop.ops import native
from csprop.ops.native import library
from csprop.ops.native.library import Arguments, structures

pytestmark = pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)

KINDS = ["paper", "rotor", "counter"]
"""The models that `tests.helpers.tracing` traces."""
DECLARED = """
enum class Decay : int64_t { exp, switch_ };
struct Layer { int64_t gates; Tensor skip, recall; Decay decay; };
struct Model { const Layer *layers, *others; double rate, loss; void* out; };
"""


def test_structures_are_read_from_their_declarations() -> None:
    known = structures(DECLARED)
    layers = Arguments(known["Layer"], {"decay": "switch", "recall": 3}, {"gates": 7})
    assert list(known["Layer"].places) == ["gates", "skip", "recall", "decay"]
    assert list(layers._integers) == [0, -1, 3, 1, 7, -1, -1, 0]
    numbers = torch.zeros(2)
    packed = Arguments(known["Model"], {"layers": layers, "rate": 0.5, "out": numbers})
    assert (packed["layers"], packed["others"]) == (layers.address, 0)
    assert (packed["rate"], packed["loss"], packed["out"]) == (0.5, 0.0, numbers.data_ptr())
    packed["loss"] = math.pi
    assert packed["loss"] == math.pi
    with pytest.raises(RuntimeError, match="no field 'speed': install csprop again"):
        packed["speed"] = 1
    with pytest.raises(KeyError, match="fast"):
        layers["decay"] = "fast"


def test_a_library_of_another_version_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(library.__file__).parent
    monkeypatch.setitem(library.FUNCTIONS, "leap", (library._POINTER,))
    assert library.load(folder) == (None, "of another version: install csprop again")
    monkeypatch.undo()
    monkeypatch.setattr(library, "structures", lambda text: {})
    assert library.load(folder) == (None, "of another version: install csprop again")


def test_why_there_is_no_library(tmp_path: Path) -> None:
    assert library.load(tmp_path)[1].startswith("not compiled: install a C++ compiler")
    (tmp_path / f"kernel{EXTENSION_SUFFIXES[0]}").write_text("no library")
    assert library.load(tmp_path)[1].startswith("cannot be loaded: ")


@pytest.mark.parametrize(
    "kind", [KINDS[0], *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:])]
)
@pytest.mark.parametrize("backend", [pytest.param("torch", marks=pytest.mark.slow), "native"])
def test_compile_and_export_trace_a_model(kind: str, backend: str) -> None:
    """In a process of its own: torch cannot trace the shape checks of these tests."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.helpers.tracing", kind, backend]
    root = Path(__file__).parents[2]
    subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)


def test_a_shortage_of_memory_is_an_exception() -> None:
    code = (
        "import resource, torch, csprop\n"
        "net = csprop.CSP(csprop.CSPConfig(vocab_size=2, num_classes=2, width=16384, depth=1))\n"
        "tokens = torch.zeros(1, 1, dtype=torch.int64)\n"
        "with torch.no_grad():\n"
        "    net(tokens)\n"
        "    held = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (held + 2**21, held + 2**21))\n"
        "    try:\n"
        "        net(tokens.expand(1, 4096))\n"
        "    except (MemoryError, RuntimeError):\n"
        "        raise SystemExit(0)\n"
        "raise SystemExit('nothing was raised')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
