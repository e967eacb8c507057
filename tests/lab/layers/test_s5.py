"""S5 is the layer of s5-pytorch, and the recurrence of its paper."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from csprop_lab.layers.s5 import S5, hippo
from tests.helpers import mixers

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", DeprecationWarning)
    from s5 import S5 as Library  # pyright: ignore
    from s5.init import make_DPLR_HiPPO  # pyright: ignore

WIDTH = 16


@pytest.fixture
def layer() -> S5:
    torch.manual_seed(0)
    return S5(WIDTH)


def library(layer: S5) -> Library:
    """The library's state space with the same weights, which has both states of every pair."""
    other = Library(WIDTH, WIDTH)
    parts = other.seq
    with torch.no_grad():
        eigenvalues = torch.complex(layer.real, layer.imaginary)
        b, c = torch.view_as_complex(layer.b), torch.view_as_complex(layer.c)
        parts.Lambda.copy_(torch.cat([eigenvalues, eigenvalues.conj()]))
        parts.B.copy_(torch.view_as_real(torch.cat([b, b.conj().resolve_conj()])))
        parts.C.copy_(torch.cat([c, c.conj()], dim=1))
        parts.D.copy_(layer.skip)
        parts.log_step.copy_(layer.log_step.repeat(2))
    return other


def activated(layer: S5, y: Tensor) -> Tensor:
    y = F.gelu(y)
    return y * torch.sigmoid(y @ layer.gate.weight.T + layer.gate.bias)


def looped(layer: S5, u: Tensor) -> Tensor:
    """The paper's recurrence, a step at a time."""
    eigenvalues = torch.complex(layer.real, layer.imaginary)
    b, c = torch.view_as_complex(layer.b), torch.view_as_complex(layer.c)
    factor = (eigenvalues * layer.log_step.exp()).exp()
    b = ((factor - 1) / eigenvalues)[:, None] * b
    x, outputs = torch.zeros(len(u), WIDTH // 2, dtype=factor.dtype), []
    for t in range(u.shape[1]):
        x = factor * x + u[:, t].to(b.dtype) @ b.T
        outputs.append(2 * (x @ c.T).real + layer.skip * u[:, t])
    return activated(layer, torch.stack(outputs, dim=1))


@pytest.mark.parametrize("steps", [2, 40, 150])
def test_it_is_the_library_s_layer(layer: S5, steps: int) -> None:
    x = torch.randn(3, steps, WIDTH, generator=torch.Generator().manual_seed(1))
    expected = activated(layer, library(layer)(x))
    torch.testing.assert_close(layer(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("steps", [1, 40, 150])
def test_it_is_the_recurrence(layer: S5, steps: int) -> None:
    x = torch.randn(2, steps, WIDTH, generator=torch.Generator().manual_seed(1)).double()
    mixers.check_same(layer.double(), lambda x: looped(layer, x), x, 1e-8)


def test_it_begins_with_the_eigenvalues_of_hippo() -> None:
    eigenvalues, vectors = hippo(16)
    expected, _, _, _, _ = make_DPLR_HiPPO(16)
    both = torch.cat([eigenvalues, eigenvalues.conj()])
    assert both.real.unique().tolist() == [-0.5]
    torch.testing.assert_close(
        both.imag.sort().values.double(), torch.from_numpy(expected.imag), rtol=1e-5, atol=1e-5
    )
    n = torch.arange(16.0)
    normal = -((n[:, None] + 0.5) * (n + 0.5)).sqrt()
    normal = normal.tril(-1) - normal.tril(-1).T - 0.5 * torch.eye(16)
    torch.testing.assert_close(
        normal.to(vectors.dtype) @ vectors, vectors * eigenvalues, rtol=1e-4, atol=1e-4
    )
