"""What an import brings with it, each in a process of its own."""

import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from csprop.ops import native

EXPORT = """
import sys, torch, csprop
cells = {
    "paper": [csprop.Paper()], "rotor": [csprop.Rotor(order=3)],
    "counter": [csprop.Counter(), csprop.Switch()], "router": [csprop.Router()],
}
for name, stack in cells.items():
    sizes = dict(vocab_size=2, num_classes=2, width=4, decoder="linear")
    net = csprop.CSP(csprop.CSPConfig(**sizes, cells=stack)).eval()
    tokens = torch.tensor([[0, 1, 1, 0, 1]])
    program = torch.export.export(net, (tokens,))
    torch.export.save(program, f"{sys.argv[1]}/{name}.pt2")
    torch.save(net(tokens).detach(), f"{sys.argv[1]}/{name}.scores")
"""
LOAD = """
for name in ("paper", "rotor", "counter", "router"):
    scores = torch.export.load(f"{sys.argv[1]}/{name}.pt2").module()(torch.tensor([[0, 1, 1, 0, 1]]))
    torch.testing.assert_close(scores, torch.load(f"{sys.argv[1]}/{name}.scores"))
"""


def run(code: str, *arguments: object) -> None:
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    subprocess.run(command, check=True)


@pytest.mark.parametrize(
    "imports",
    [
        "csprop",
        "csprop.ops",
        "csprop.ops.backends",
        "csprop.ops.native",
        "csprop.ops.native.search",
        "csprop.nn.config",
    ],
)
def test_torch_is_left_out(imports: str) -> None:
    run(f"import sys, {imports}; assert 'torch' not in sys.modules")


def test_the_configuration_is_imported_without_the_kernel() -> None:
    """`csprop --help` needs the one, and waits for neither NumPy nor the other."""
    run("import sys, csprop.nn.config; assert not {'numpy', 'csprop.ops.native'} & set(sys.modules)")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    run(EXPORT, folder)
    return folder


def test_a_saved_program_loads_after_the_import_of_the_operators(programs: Path) -> None:
    run(f"import sys, torch, csprop.ops.operators\n{LOAD}", programs)


def test_a_kernel_that_was_compiled_is_used() -> None:
    """Otherwise every test of the kernel would be skipped, and nobody would notice."""
    folder = Path(native.__file__).parent
    if not any((folder / f"kernel{suffix}").exists() for suffix in EXTENSION_SUFFIXES):
        pytest.skip("the kernel is not compiled")
    assert not native.WHY_NOT
