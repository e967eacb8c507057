"""What an import brings with it, each in a process of its own."""

import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from csprop.ops import native


def run(code: str) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


@pytest.mark.parametrize(
    "imports",
    ["", ".ops", ".ops.backends", ".ops.native", ".ops.native.search", ".nn.config"],
)
def test_torch_is_left_out(imports: str) -> None:
    run(f"import sys, csprop{imports}; assert 'torch' not in sys.modules")


def test_the_configuration_is_imported_without_the_kernel() -> None:
    """`csprop --help` needs the one, and waits for neither NumPy nor the other."""
    run("import sys, csprop.nn.config; assert not {'numpy', 'csprop.ops.native'} & set(sys.modules)")


def test_the_printed_model_imports_neither_other_cells_nor_operators() -> None:
    run("""
import sys, torch, csprop
with csprop.use_backend("torch"):
    net = csprop.CSP(csprop.CSPConfig(vocab_size=2, num_classes=2))
    net(torch.tensor([[0, 1, 1]])).sum().backward()
ours = [each for name, each in sys.modules.items() if name.split(".")[0] == "csprop"]
assert sum(len(open(each.__file__).readlines()) for each in ours) < 1900
assert {"paper", "block", "options"} == {
    each.__name__.split(".")[2] for each in ours if each.__name__.startswith("csprop.cells.")
}
""")


def test_a_kernel_that_was_compiled_is_used() -> None:
    """Otherwise every test of the kernel would be skipped, and nobody would notice."""
    folder = Path(native.__file__).parent
    if not any((folder / f"kernel{suffix}").exists() for suffix in EXTENSION_SUFFIXES):
        pytest.skip("the kernel is not compiled")
    assert not native.WHY_NOT
