"""Resonators: the kernel, the backends of torch and a transcription of the definition agree."""

import cmath
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor

from csprop import use_backend
from csprop.errors import InputError
from csprop.ops import native
from csprop.ops import resonate as kernel
from csprop.ops.resonate import resonate as run

BACKENDS = ["reference", "torch", *([] if native.WHY_NOT else ["native"])]
needs_kernel = pytest.mark.skipif(bool(native.WHY_NOT), reason="the kernel is not compiled")
EXTREME = torch.tensor([-1e4, -100.0, 100.0, 1e4])
"""κ at which α rounds to 0 or to 1."""


def drawn(
    batch: int, steps: int, width: int, rows: int = 0, resets: bool = False, extreme: bool = False,
    seed: int = 0, dtype: torch.dtype = torch.float64,
) -> dict[str, Any]:  # fmt: skip
    """Arguments of `resonate`; with rows, entries are a table of so many."""
    g = Generator().manual_seed(seed)
    shape = (rows,) if rows else (batch, steps)
    entries = torch.randn(*shape, 5, width, generator=g, dtype=dtype)
    if extreme:
        chosen = EXTREME.to(dtype)[torch.randint(4, (*shape, width), generator=g)]
        some = torch.rand(*shape, width, generator=g) < 0.5
        entries[..., 2, :] = torch.where(some, chosen, entries[..., 2, :])
    return {
        "entries": entries,
        "theta": torch.rand(width, generator=g, dtype=dtype) * math.pi,
        "h0": torch.randn(batch, 2, width, generator=g, dtype=dtype),
        "reset": torch.rand(batch, steps, generator=g) < 0.3 if resets else None,
        "index": torch.randint(rows, (batch, steps), generator=g) if rows else None,
    }


def transcribed(
    entries: Tensor, theta: Tensor, h0: Tensor, reset: Tensor | None, index: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The definition, one complex number at a time."""
    given = (entries if index is None else entries[index]).numpy()
    batch, steps, _, width = given.shape
    y, last = np.zeros((batch, steps, width)), h0.numpy().copy()
    for b in range(batch):
        for d in range(width):
            h = complex(*last[b, :, d])
            for t in range(steps):
                z_re, z_im, kappa, r_re, r_im = map(float, given[b, t, :, d])
                if reset is not None and reset[b, t]:
                    h = 0
                alpha = 1 / (1 + math.exp(-kappa))
                h = alpha * cmath.exp(1j * float(theta[d])) * h
                h += math.sqrt(1 - alpha**2) * complex(z_re, z_im)
                s = complex(r_re / (1 + math.exp(-r_re)), r_im / (1 + math.exp(-r_im)))
                y[b, t, d] = (s.conjugate() * h).real
            last[b, :, d] = h.real, h.imag
    return torch.from_numpy(y), torch.from_numpy(last)


def with_gradients(backend: str, arguments: dict[str, Any]) -> list[Tensor]:
    """What is read, the last state, and the gradients of entries, angles and the first state; with
    weights that are the same numbers in every type."""
    names = ("entries", "theta", "h0")
    leaves = {name: arguments[name].clone().requires_grad_() for name in names}
    with use_backend(backend):
        y, last = run(**arguments | leaves)
        g = Generator().manual_seed(9)
        weights = [torch.randn(each.shape, generator=g).to(each) for each in (y, last)]
        loss = (y * weights[0]).sum() + (last * weights[1]).sum()
        found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    zeros = (torch.zeros_like(each) for each in leaves.values())
    return [
        y.detach(),
        last.detach(),
        *(z if g is None else g for g, z in zip(found, zeros, strict=True)),
    ]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rows", [0, 3])
def test_it_is_the_definition(backend: str, rows: int) -> None:
    arguments = drawn(2, 7, 3, rows, resets=True)
    with use_backend(backend):
        torch.testing.assert_close(run(**arguments), transcribed(**arguments))


@needs_kernel
@settings(max_examples=40)
@given(
    batch=st.integers(0, 6),
    steps=st.sampled_from([0, 1, 2, 5, 20]),
    width=st.sampled_from([1, 2, 7, 16, 33]),
    rows=st.sampled_from([0, 0, 1, 4]),
    resets=st.booleans(),
    extreme=st.booleans(),
    seed=st.integers(0, 99),
)
def test_backends_agree(
    batch: int, steps: int, width: int, rows: int, resets: bool, extreme: bool, seed: int
) -> None:
    arguments = drawn(batch, steps, width, rows, resets, extreme, seed)
    got = with_gradients("native", arguments)
    for backend in ("torch", "reference"):
        for mine, other in zip(got, with_gradients(backend, arguments), strict=True):
            torch.testing.assert_close(mine, other, atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rows", [0, 4])
def test_float32_is_near_float64(backend: str, rows: int) -> None:
    single = drawn(3, 40, 9, rows, resets=True, extreme=True, dtype=torch.float32)
    kept = ("reset", "index")
    exact = {name: each if name in kept else each.double() for name, each in single.items()}
    pairs = zip(with_gradients(backend, single), with_gradients(backend, exact), strict=True)
    for got, want in pairs:
        torch.testing.assert_close(got.double(), want, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("kappa", [-1e4, -100.0, 100.0, 1e4])
def test_gradients_are_finite_where_alpha_rounds(backend: str, rows: int, kappa: float) -> None:
    """At 1 nothing enters, and at 0 nothing is kept; the slope of a root has no bound there."""
    arguments = drawn(2, 9, 3, rows, dtype=torch.float32)
    arguments["entries"][..., 2, :] = kappa
    found = with_gradients(backend, arguments)
    assert all(each.isfinite().all() for each in found)
    assert found[2][..., 3:, :].any()  # how it is read is still learned


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rows", [0, 2])
@pytest.mark.parametrize("resets", [False, True])
def test_gradients_are_those_of_differences(backend: str, rows: int, resets: bool) -> None:
    arguments = drawn(2, 4, 2, rows, resets)
    leaves = [arguments[name].requires_grad_() for name in ("entries", "theta", "h0")]
    with use_backend(backend):
        assert torch.autograd.gradcheck(
            lambda a, b, c: run(a, b, c, arguments["reset"], arguments["index"]), leaves
        )


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@needs_kernel
@pytest.mark.parametrize("rows", [0, 5])
def test_results_do_not_depend_on_the_number_of_threads(rows: int) -> None:
    arguments = drawn(7, 50, 19, rows, resets=True, dtype=torch.float32)
    found = []
    for count in (1, 2, 3):
        with threads(count):
            found.append(with_gradients("native", arguments))
    for others in found[1:]:
        assert all(torch.equal(*pair) for pair in zip(found[0], others, strict=True))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(backend: str, dtype: torch.dtype) -> None:
    arguments = drawn(2, 300, 3, dtype=torch.float32)
    half = arguments | {"entries": arguments["entries"].to(dtype)}
    exact = arguments | {"entries": half["entries"].float()}
    with use_backend(backend):
        (y, last), (want, end) = run(**half), run(**exact)
    assert (y.dtype, last.dtype) == (dtype, torch.float32)
    torch.testing.assert_close((y, last), (want.to(dtype), end))


@needs_kernel
def test_without_gradients_two_states_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Tensor] = []
    call = kernel._call
    monkeypatch.setattr(
        kernel, "_call", lambda *a, **named: (kept.append(named["h"]), call(*a, **named))
    )
    arguments = drawn(3, 1001, 4)
    with use_backend("native"), torch.no_grad():
        y, last = run(**arguments)
    assert [each.shape for each in kept] == [(3, 2, 2, 4)]
    with use_backend("reference"):
        torch.testing.assert_close((y, last), run(**arguments))


@needs_kernel
@pytest.mark.parametrize("wrong", [-1, 3])
def test_the_kernel_reads_nothing_outside_of_its_table(wrong: int) -> None:
    arguments = drawn(2, 4, 3, 3)
    arguments["index"][1, 2] = wrong
    with use_backend("native"), pytest.raises(IndexError):
        run(**arguments)


def test_tensors_need_not_be_contiguous() -> None:
    arguments = drawn(4, 6, 5)
    turned: dict[str, Any] = {
        name: each.mT.contiguous().mT if each is not None and each.ndim > 1 else each
        for name, each in arguments.items()
    }
    assert not turned["entries"].is_contiguous()
    torch.testing.assert_close(run(**turned), run(**arguments))


def test_an_index_that_is_overwritten_before_the_adjoint_does_no_harm() -> None:
    """By NumPy, which torch does not notice."""
    numbers = np.zeros((2, 3), dtype=np.int64)
    entries = torch.randn(4, 5, 6, generator=Generator().manual_seed(0)).requires_grad_()
    y, _ = run(entries, torch.zeros(6), torch.zeros(2, 2, 6), None, torch.from_numpy(numbers))
    numbers[:] = 10**9
    y.sum().backward()
    assert entries.grad is not None
    assert not entries.grad[1:].any()


@pytest.mark.parametrize(
    "wrong",
    [
        {"entries": torch.zeros(2, 3, 5, 7)},
        {"h0": torch.zeros(2, 2, 1)},
        {"h0": torch.zeros(1, 2, 6)},
        {"reset": torch.zeros(2, 2, dtype=torch.bool)},
        {"reset": torch.zeros(2, 3)},
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_before_the_kernel(
    wrong: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # users have no checks but ours
    values = {"entries": torch.zeros(2, 3, 5, 6), "theta": torch.zeros(6), "h0": torch.zeros(2, 2, 6)}
    (name,) = wrong
    with pytest.raises(InputError, match={"h0": "state"}.get(name, name)):
        run(**values | wrong)
