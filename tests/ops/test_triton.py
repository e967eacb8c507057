"""The Triton kernel: run in Triton's interpreter, and compiled, both without a GPU.

The interpreter is asked for by a variable that must be there before Triton is imported, so that each
has a process of its own. There is no test on a GPU.
"""

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from csprop.errors import InputError
from csprop.ops import gpu
from csprop.ops import scan as scans
from csprop.ops.backends import as_before, backend, use_backend

needs_triton = pytest.mark.skipif(not gpu.installed(), reason="triton is not installed")
needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
HERE = Path(__file__).parent

COMPILE = """
import sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from csprop.ops.gpu import kernels

for order, padded, planes in ((2, 2, 1), (2, 2, 2), (3, 4, 9)):
    for kernel, numbers, shared in ((kernels.scan, "fp32", False), (kernels.adjoint, "fp64", True)):
        sizes = dict(M=order, P=padded, PLANES=planes, SHARED=shared, RESET=shared, BLOCK=32)
        kinds = dict.fromkeys(kernel.arg_names, "*" + numbers) | {"reset": "*i1"}
        kinds |= dict.fromkeys(("steps", "width", "columns"), "i32")
        kinds |= {"g_columns": "i32"} if "g_columns" in kinds else {}
        source = ASTSource(kernel, kinds | dict.fromkeys(sizes, "constexpr"), sizes)
        options = {"enable_fp_fusion": False}
        made = triton.compile(source, target=GPUTarget("cuda", 80, 32), options=options)
        assert "ptx" in made.asm
"""


def run(*command: object, **environment: str) -> None:
    whole = [sys.executable, *map(str, command)]
    result = subprocess.run(whole, env=os.environ | environment, capture_output=True, text=True)
    assert not result.returncode, result.stdout + result.stderr


@pytest.mark.slow
@needs_triton
def test_the_kernel_computes_the_reference_in_the_interpreter() -> None:
    where = HERE / "interpreted.py"
    run("-m", "pytest", "--noconftest", "-p", "no:cacheprovider", where, TRITON_INTERPRET="1")


@pytest.mark.slow
@needs_triton
def test_the_kernel_is_compiled_for_a_gpu(tmp_path: Path) -> None:
    """The interpreter takes more than the compiler does."""
    run("-W", "error", "-c", COMPILE, TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(tmp_path))


@needs_no_gpu
def test_the_backend_is_refused_where_it_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(gpu, "installed", lambda: True)
    with pytest.raises(InputError, match="backend 'triton': the kernel is without a CUDA device"):
        use_backend("triton").__enter__()
    monkeypatch.setattr(gpu, "installed", lambda: False)
    with pytest.raises(InputError, match=r"not installed: pip install 'csprop\[triton\]'"):
        use_backend("triton").__enter__()
    monkeypatch.delenv("CSPROP_BACKEND", raising=False)
    assert as_before("triton") == backend() != "triton"


class OnCuda:
    """As much of a CUDA tensor as is looked at to choose a backend."""

    is_cuda, is_cpu, dtype, device = True, False, torch.float32, "cuda:0"


@pytest.mark.parametrize(
    ("asked", "there", "chosen"),
    [(None, True, True), ("native", True, True), ("torch", True, False), (None, False, False)],
)
def test_cuda_tensors_go_to_triton_unless_torch_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, asked: str | None, there: bool, chosen: bool
) -> None:
    monkeypatch.setattr(scans, "asked_for", lambda: asked)
    monkeypatch.setattr(gpu, "installed", lambda: there)
    on_gpu: Any = inspect.unwrap(scans._on_gpu)  # without the check of types
    assert on_gpu(OnCuda(), OnCuda()) is chosen
