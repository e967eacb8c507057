"""What an import brings with it, each in a process of its own."""

import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from csprop.ops import native

EXPORT = """
import sys, torch, csprop
from csprop.training.presets import preset
for name, kind in (("parity", "rotor"), ("group-A5", "rotor"), ("parenthesis", "counter")):
    options = vars(preset(kind, csprop.tasks.get(name)).model)
    net = csprop.CSP(csprop.CSPConfig(vocab_size=2, num_classes=2, **{**options, "width": 4}))
    tokens = torch.tensor([[0, 1, 1, 0, 1]])
    program = torch.export.export(net, (tokens,))
    torch.export.save(program, f"{sys.argv[1]}/{name}.pt2")
    torch.save(net(tokens).detach(), f"{sys.argv[1]}/{name}.scores")
"""
LOAD = """
for name in ("parity", "group-A5", "parenthesis"):
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
        "csprop.ops.native.table",
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


@pytest.mark.parametrize(
    "imports",
    [
        "import csprop, torch",
        "import torch, csprop",
        "import csprop, importlib.util; importlib.util.find_spec('torch'); import torch",
        "import csprop.ops.planes, torch",
        "import csprop; csprop.tasks.get('parity'); import torch",
    ],
)
def test_a_saved_program_loads_after_a_plain_import(imports: str, programs: Path) -> None:
    run(f"import sys; {imports}\n{LOAD}", programs)


def test_the_finder_steps_aside_once_torch_is_there() -> None:
    run(
        "import sys; before = list(sys.meta_path); import csprop; assert sys.meta_path != before\n"
        "import torch; assert not any('csprop' in type(each).__module__ for each in sys.meta_path)"
    )


def test_a_kernel_that_was_compiled_is_used() -> None:
    """Otherwise every test of the kernel would be skipped, and nobody would notice."""
    folder = Path(native.__file__).parent
    if not any((folder / f"kernel{suffix}").exists() for suffix in EXTENSION_SUFFIXES):
        pytest.skip("the kernel is not compiled")
    assert not native.WHY_NOT
