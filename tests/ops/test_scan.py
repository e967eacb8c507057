import math

import pytest
import torch
from torch import Generator, Tensor

from csprop import scan, use_backend
from csprop.errors import InputError
from csprop.ops import native
from csprop.ops.backends import as_before
from csprop.ops.backends import backend as current_backend
from csprop.ops.scan import GRADIENT_LIMIT, HALF_LIMIT, LIMIT
from csprop.ops.scan import _check as check
from tests.helpers.processor import passes_with_the_plain_kernel

LENGTHS = [0, 1, 2, 3, 16, 63, 100]
needs_kernel = pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)
NATIVE = pytest.param("native", marks=needs_kernel)
MATRIX = 3
"""For `planes`, beside 1 for real and 2 for complex factors: rotations, scaled."""
KINDS = [(1, 2), (2, 2), (1, 3), (1, 7), *((MATRIX, order) for order in (2, 3, 4, 5, 7))]
"""(planes, order) of what a backend knows."""
FAST = pytest.mark.parametrize("backend", ["torch", NATIVE])
EVERY = pytest.mark.parametrize("backend", ["reference", "torch", NATIVE])


def draw(
    length: int, *, planes: int = 2, order: int = 2, modulus: float = 0.9, shared: bool = False,
    batch: int = 2, width: int = 3, dtype: torch.dtype = torch.float64,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """a with moduli spread by 2% around `modulus`, u, h0 and a reset mask."""
    g = Generator().manual_seed(0)
    channels = 1 if shared else width
    size = modulus * (0.98 + 0.04 * torch.rand(batch, length, 1, channels, generator=g, dtype=dtype))
    a = size
    if planes == 2:
        angle = 2 * math.pi * torch.rand(batch, length, 1, channels, generator=g, dtype=dtype)
        a = torch.cat([size * angle.cos(), size * angle.sin()], dim=2)
    if planes == MATRIX:
        skew = torch.randn(batch, length, channels, order, order, generator=g, dtype=torch.float64)
        rotation = torch.linalg.matrix_exp(skew - skew.mT).movedim(2, -1).to(dtype)
        a = size[:, :, None] * rotation
    u = torch.randn(batch, length, order, width, generator=g, dtype=dtype)
    h0 = torch.randn(batch, order, width, generator=g, dtype=dtype)
    reset = torch.rand(batch, length, generator=g) < 0.05
    return a, u, h0, reset


def everything(backend: str, a: Tensor, u: Tensor, h0: Tensor, reset: Tensor | None) -> list[Tensor]:
    """States, last state, and the gradients of a generic function of both."""
    leaves = [leaf.clone().requires_grad_() for leaf in (a, u, h0)]
    with use_backend(backend):
        h, last = scan(leaves[0], leaves[1], leaves[2], reset)
    weights = torch.randn(h.shape, generator=Generator().manual_seed(9), dtype=torch.float64).to(
        h.dtype
    )
    # Phases, so that growing states keep gradients of size one.
    scale = torch.linalg.vector_norm(h.detach(), dim=2, keepdim=True) + 1
    (((h / scale) * weights).sum() + (last / (last.detach().norm() + 1)).square().sum()).backward()
    return [h, last, *(torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves)]


@FAST
@pytest.mark.parametrize("modulus", [0.9, 1.0, 1.05])
@pytest.mark.parametrize(
    ("planes", "order", "length"),
    [
        *((*kind, length) for kind in KINDS for length in LENGTHS),
        *((planes, 2, length) for planes in (1, 2) for length in (64, 65, 1000)),
    ],
)
def test_backends_equal_reference_in_values_states_and_gradients(
    length: int, planes: int, order: int, modulus: float, backend: str
) -> None:
    for shared in (False, True):
        a, u, h0, reset = draw(length, planes=planes, order=order, modulus=modulus, shared=shared)
        for mask in (None, reset) if order == 2 else (None,) if shared else (reset,):
            expected = everything("reference", a, u, h0, mask)
            for got, want in zip(everything(backend, a, u, h0, mask), expected, strict=True):
                torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


@FAST
@pytest.mark.parametrize(("planes", "order"), KINDS)
def test_backends_equal_reference_in_float32(planes: int, order: int, backend: str) -> None:
    a, u, h0, reset = draw(257, planes=planes, order=order, modulus=1.0, dtype=torch.float32, width=19)
    expected = everything("reference", a.double(), u.double(), h0.double(), reset)
    for got, want in zip(everything(backend, a, u, h0, reset), expected, strict=True):
        assert got.dtype == torch.float32
        torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-4)


@FAST
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("planes", "order"), KINDS)
def test_backends_agree_where_the_state_saturates(
    planes: int, order: int, shared: bool, backend: str
) -> None:
    a, u, h0, reset = draw(120, planes=planes, order=order, modulus=2.0, shared=shared)
    expected = everything("reference", a, u, h0, None)
    assert torch.linalg.vector_norm(expected[0], dim=2).max().item() == pytest.approx(LIMIT)
    for mask in (None, reset):
        expected = everything("reference", a, u, h0, mask)
        for got, want in zip(everything(backend, a, u, h0, mask), expected, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


@EVERY
@pytest.mark.parametrize(("planes", "order"), KINDS)
@pytest.mark.parametrize("modulus", [1.0, 3e17])
def test_gradcheck(backend: str, planes: int, order: int, modulus: float) -> None:
    """At 3e17 the second step saturates; the output is scaled back to size one for the check."""
    a, u, h0, _ = draw(4, planes=planes, order=order, modulus=modulus, batch=1, width=2)
    leaves = [leaf.requires_grad_() for leaf in (a / modulus, u, h0)]
    scale = LIMIT if modulus > 1 else 1.0

    def scanned(a: Tensor, u: Tensor, h0: Tensor) -> tuple[Tensor, Tensor]:
        h, last = scan(a * modulus, u, h0)
        return h / scale, last / scale

    with use_backend(backend):
        assert torch.autograd.gradcheck(scanned, leaves, eps=1e-7, atol=1e-5)


@EVERY
@pytest.mark.parametrize("order", [2, 3, 4, 5, 7])
def test_scan_is_the_equation_in_plain_matrices(backend: str, order: int) -> None:
    a, u, h0, reset = draw(9, planes=MATRIX, order=order)
    a += torch.randn(a.shape, generator=Generator().manual_seed(1), dtype=a.dtype) / 9  # no symmetry
    with use_backend(backend):
        h, _ = scan(a, u, h0, reset | (torch.arange(9) == 4))
    for b in range(2):
        for d in range(3):
            state = h0[b, :, d]
            for t in range(9):
                state = torch.zeros_like(state) if reset[b, t] or t == 4 else state
                state = a[b, t, :, :, d] @ state + u[b, t, :, d]
                torch.testing.assert_close(h[b, t, :, d], state)


@FAST
@pytest.mark.parametrize(("planes", "order"), KINDS)
def test_vmap_is_each_scan_alone(planes: int, order: int, backend: str) -> None:
    a, u, h0, reset = draw(20, planes=planes, order=order, batch=6)
    with use_backend(backend):
        want, last = scan(a, u, h0, reset)
        got, ends = torch.func.vmap(scan)(*(each.unflatten(0, (3, 2)) for each in (a, u, h0, reset)))
        first = torch.func.vmap(scan, in_dims=(None, 1))(a[:2], u.unflatten(0, (3, 2)).movedim(0, 1))[0]
    assert torch.equal(got.flatten(0, 1), want)
    assert torch.equal(ends.flatten(0, 1), last)
    with use_backend(backend):
        assert torch.equal(first[2], scan(a[:2], u[4:])[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("planes", "order"), KINDS)
def test_half_precision_is_computed_in_float32(planes: int, order: int, dtype: torch.dtype) -> None:
    a, u, h0, _ = (each.to(dtype) for each in draw(20, planes=planes, order=order))
    h, last = scan(a, u, h0)
    want, end = scan(a.float(), u.float(), h0.float())
    assert h.dtype == dtype
    assert torch.equal(h, want.to(dtype))
    assert torch.equal(last, end)


@FAST
def test_a_hundred_thousand_growing_steps_stay_finite_and_keep_their_phase(backend: str) -> None:
    steps, growth = 100_000, 1.3
    u = torch.zeros(1, steps, 2, 1)
    u[:, :, 0] = 1.0
    u[:, 0, 1] = 2.0  # the first step alone points elsewhere
    a = torch.full((1, steps, 1, 1), growth, requires_grad=True)
    u.requires_grad_()
    with use_backend(backend):
        h, last = scan(a, u)
    last = last.detach()
    assert h.isfinite().all()
    assert torch.linalg.vector_norm(last, dim=1).item() == pytest.approx(LIMIT, rel=1e-5)
    # h_T = growth^(T-1) (1 + 2i + Σ growth^-k): its phase does not depend on the scale.
    expected = math.atan2(2, 1 / (1 - 1 / growth))
    assert math.atan2(last[0, 1, 0], last[0, 0, 0]) == pytest.approx(expected, rel=1e-5)
    with use_backend(backend):
        (h / LIMIT).sum().backward()
    assert a.grad is not None
    assert u.grad is not None
    assert a.grad.isfinite().all()
    assert u.grad.isfinite().all()
    assert u.grad[0, 0].abs().max() > 0


def test_states_beyond_float16_keep_their_direction() -> None:
    a = torch.full((1, 60, 1, 1), 1.5, dtype=torch.float16)
    u = torch.zeros(1, 60, 2, 1, dtype=torch.float16)
    u[:, 0, 0], u[:, 0, 1] = 1.0, 2.0
    h, last = scan(a, u.requires_grad_())
    assert h.isfinite().all()
    re, im = h.detach()[0, -1, :, 0].tolist()
    assert math.hypot(re, im) == pytest.approx(HALF_LIMIT, rel=1e-3)
    assert math.atan2(im, re) == pytest.approx(math.atan2(2, 1), rel=1e-3)
    assert last[0, 0, 0].item() == pytest.approx(1.5**59, rel=1e-5)
    (h / HALF_LIMIT).sum().backward()
    assert u.grad is not None
    assert u.grad.isfinite().all()


@FAST
def test_an_adjoint_that_overflows_in_one_chunk_is_done_step_by_step(backend: str) -> None:
    """The growth from 3 to 12 lies behind a zero: it reaches no state and no gradient."""
    a, u = torch.ones(1, 50, 1, 1), torch.zeros(1, 50, 2, 1)
    a[:, 2], a[:, 3:12], u[:, 0] = 0, 1e5, 1
    gradients = []
    for name in ("reference", backend):
        leaves = [leaf.clone().requires_grad_() for leaf in (a, u)]
        with use_backend(name):
            scan(*leaves)[0][:, :2].sum().backward()
        gradients.append([leaf.grad for leaf in leaves])
    for got, want in zip(*gradients, strict=True):
        assert got.isfinite().all()
        torch.testing.assert_close(got, want)


@FAST
@pytest.mark.parametrize(("planes", "order"), KINDS)
def test_gradients_of_a_channel_that_grows_from_nothing_are_bounded_alike(
    planes: int, order: int, backend: str
) -> None:
    a, u, _, _ = draw(60, planes=planes, order=order, modulus=3.0)
    u = torch.zeros_like(u)
    gradients = []
    for name in ("reference", backend):
        leaf = u.clone().requires_grad_()
        with use_backend(name):
            scan(a, leaf)[1].sum().backward()
        assert leaf.grad is not None
        gradients.append(leaf.grad)
    assert torch.linalg.vector_norm(gradients[0], dim=2).max().item() == pytest.approx(GRADIENT_LIMIT)
    torch.testing.assert_close(gradients[1], gradients[0])


def test_empty_batches_and_a_shared_start() -> None:
    a, u, h0, _ = draw(5)
    h, last = scan(a[:0], u[:0])
    assert h.shape == (0, 5, 2, 3)
    assert last.shape == (0, 2, 3)
    shared, _ = scan(a, u, h0[0])
    each, _ = scan(a, u, h0[:1].expand(2, -1, -1))
    assert torch.equal(shared, each)


def test_wrong_shapes_say_what_is_expected() -> None:
    a, u, _, _ = draw(5)
    of_three, matrix = torch.zeros(2, 5, 3, 3, dtype=u.dtype), r"a must be \(2, 5, 1, 1 or 3\) or a mat"
    wrong: list[tuple[str, tuple[Tensor, Tensor, Tensor | None, Tensor | None]]] = [
        (r"a must be \(2, 5, 1 or 2, 1 or 3\) or a matrix", (a.repeat(1, 1, 2, 1), u, None, None)),
        *((matrix, (each, of_three, None, None)) for each in (a, a[:, :, None], a[0, 0])),
        (r"a must be .* tensor of shape \(2, 5, 2, 3\).*; got", (a[:, :4], u, None, None)),
        (r"u must be \(B, T, M, D\), M >= 2 real planes", (a[:, :, :1], u[:, :, :1], None, None)),
        (r"reset must be a dense bool tensor of shape \(2, 5\)", (a, u, None, torch.zeros(2, 5))),
        (r"h0 must be .* tensor of shape \(2, 2, 3\)", (a, u, torch.zeros(3, 2, 3), None)),
    ]
    for sentence, arguments in wrong:
        with pytest.raises(InputError, match=sentence):
            check(*arguments)
    with pytest.raises(InputError, match="backend 'fast': there is no such backend: choose from ref"):
        use_backend("fast").__enter__()


def test_the_environment_chooses_a_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CSPROP_BACKEND", raising=False)
    assert current_backend() == ("torch" if native.WHY_NOT else "native")
    assert as_before("reference") == "reference"  # a run goes on with its backend
    monkeypatch.setenv("CSPROP_BACKEND", "reference")
    assert as_before("torch") == as_before("native") == current_backend() == "reference"
    with use_backend("torch"):
        assert as_before("reference") == current_backend() == "torch"
    monkeypatch.setenv("CSPROP_BACKEND", "quantum")
    with pytest.raises(ValueError, match="CSPROP_BACKEND=quantum: there is no such backend"):
        current_backend()
    monkeypatch.delenv("CSPROP_BACKEND")
    monkeypatch.setattr(native, "WHY_NOT", "there was no compiler")
    assert as_before("native") == current_backend() == "torch"
    assert as_before("reference") == "reference"
    with pytest.raises(ValueError, match="backend 'native': the kernel is there was no compiler"):
        use_backend("native").__enter__()


@needs_kernel
def test_the_scan_for_any_processor_equals_the_reference() -> None:
    passes_with_the_plain_kernel(__file__, test_backends_agree_where_the_state_saturates.__name__)


@needs_kernel
def test_nan_stays_nan() -> None:
    u = torch.tensor([0.0, math.nan, 1.0])[None, :, None, None].repeat(1, 1, 2, 2)
    h, _ = scan(torch.ones(1, 3, 1, 1), u)
    assert h[0, 0].isfinite().all()
    assert h[0, 1:].isnan().all()
