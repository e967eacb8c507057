"""Published layers begin with the published weights, and compute the recurrences of their papers and
what the code of their authors or others gives for the same weights."""

import inspect
import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from csprop_lab.layers import layer
from csprop_lab.layers.gated_deltanet import GatedDeltaNet
from csprop_lab.layers.mamba import Mamba
from csprop_lab.layers.mamba2 import Mamba2
from csprop_lab.layers.mlstm import MLSTM, read_memory
from csprop_lab.layers.pd_ssm import PDSSM
from csprop_lab.layers.retnet import Retention
from csprop_lab.layers.rwkv7 import RWKV7
from csprop_lab.layers.s4d import S4D
from csprop_lab.layers.s5 import S5, hippo
from csprop_lab.layers.slstm import SLSTM
from tests.lab.layers import recurrences
from tests.lab.layers.recurrences import perturb

Recurrence = Callable[[Any, Tensor], Tensor]
CASES: dict[str, tuple[Recurrence, int]] = {
    "transformer": (recurrences.attention, 16),
    "s4d": (recurrences.s4d, 8),
    "s5": (recurrences.s5, 16),
    "h3": (recurrences.h3, 8),
    "mamba": (recurrences.mamba, 32),
    "mamba-2": (recurrences.mamba2, 32),
    "retnet": (recurrences.retention, 64),
    "linear-attention": (recurrences.linear_attention, 64),
    "fast-weights": (recurrences.fast_weights, 64),
    "gated-deltanet": (recurrences.gated_deltanet, 64),
    "gated-deltanet-negative": (recurrences.gated_deltanet, 64),
    "deltaproduct": (recurrences.gated_deltanet, 64),
    "megalodon": (recurrences.megalodon, 32),
    "rwkv-7": (recurrences.rwkv7, 64),
    "slstm": (recurrences.slstm, 16),
    "mlstm": (recurrences.mlstm, 16),
    "pd-ssm": (recurrences.pd_ssm, 6),
    "ssm": (recurrences.selective_ssm, 3),
    "ssm-negative": (recurrences.selective_ssm, 3),
}
"""The recurrence, and the width of the features."""
CLOSE = {"linear-attention": 1e-4, "mlstm": 1e-4}
"""Positions are in float32; the code of the mLSTM adds 1e-6 to a denominator, unlike its paper."""
SMALL = {"pd-ssm": partial(PDSSM, states=5, matrices=3)}


def make(name: str) -> nn.Module:
    return perturb(SMALL.get(name, layer(name))(CASES[name][1]), 0.3).double()


@pytest.mark.parametrize("steps", [1, 5, 40, 64, 65, 200])
@pytest.mark.parametrize("name", CASES)
def test_a_layer_is_the_recurrence_of_its_paper(name: str, steps: int) -> None:
    (recurrence, width), made = CASES[name], make(name)
    x = torch.randn(2, steps, width, dtype=torch.float64)
    close, given = CLOSE.get(name, 1e-10), [x.requires_grad_(), *made.parameters()]
    ours, theirs = made(x), recurrence(made, x)
    torch.testing.assert_close(ours, theirs, rtol=close, atol=close)
    weights = torch.randn(ours.shape, generator=Generator().manual_seed(2)).to(ours)
    mine, its = (torch.autograd.grad((each * weights).sum(), given) for each in (ours, theirs))
    torch.testing.assert_close(mine, its, rtol=close, atol=close)


@pytest.mark.parametrize(("kind", "size"), [(MLSTM, 100), (SLSTM, 10_000), (PDSSM, 1_000)])
def test_inputs_of_any_size_have_finite_gradients(
    kind: Callable[[int], nn.Module], size: float
) -> None:
    made = kind(64)
    if isinstance(made, MLSTM):
        nn.init.normal_(made.gates.weight, std=3.0)
    x = (size * torch.randn(1, 130, 64)).requires_grad_()
    made(x).square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize(
    ("name", "part", "close"),
    [
        ("s4d", "", 1e-4),
        ("mlstm", "", 1e-3),
        ("gated-deltanet", "log_rate", 1e-3),
        ("rwkv-7", "", 1e-4),
        ("rwkv-7", "decay_bias", 1e-4),
    ],
)
def test_single_precision_is_enough(name: str, part: str, close: float) -> None:
    """Also where the product of a chunk's decays is far below the least float."""
    (recurrence, width), made = CASES[name], make(name)
    if part:
        made.get_parameter(part).data += 4
    x = torch.randn(3, 150, width, dtype=torch.float64)
    expected = recurrence(made, x)
    outputs = made.float()(x.float())
    torch.testing.assert_close(outputs.double(), expected, rtol=close, atol=close)
    for gradient in torch.autograd.grad(outputs.sum(), list(made.parameters())):
        assert gradient.isfinite().all()


def within(values: Tensor, low: float, lower: float, higher: float, high: float) -> bool:
    return bool(low <= values.min() < lower < higher < values.max() <= high)


def test_mamba_and_its_successors_begin_with_the_published_steps_and_decays() -> None:
    mamba, mamba2, delta = Mamba(64), Mamba2(512), GatedDeltaNet(64)
    assert within(F.softplus(mamba.step.bias), 0.0009, 0.005, 0.02, 0.11)
    torch.testing.assert_close(mamba.log_a.exp()[:, 5], torch.arange(1.0, 17))
    assert within(F.softplus(mamba2.step_bias), 0.0009, 0.005, 0.02, 0.11)
    assert within(mamba2.log_a.exp(), 1, 3, 14, 16)
    steps = F.softplus(delta.step_bias)
    assert ((steps > 0.0009) & (steps < 0.11)).all()
    assert (delta.log_rate.exp() <= 16).all()


def test_s4d_begins_as_s4d_lin() -> None:
    ssm = S4D(256).ssm
    assert ssm.log_decay.shape == (256, 32)
    torch.testing.assert_close(ssm.log_decay.exp(), torch.full((256, 32), 0.5))
    torch.testing.assert_close(ssm.frequency[7], math.pi * torch.arange(32.0))
    assert within(ssm.log_step.exp(), 0.001, 0.0015, 0.08, 0.1)


def test_rwkv_7_begins_as_published() -> None:
    """The output is 0 at first, and the decays cover what the authors' code gives a first layer."""
    layer = RWKV7(64)
    assert (layer(torch.randn(2, 10, 64)) == 0).all()
    place = torch.arange(64)
    torch.testing.assert_close(layer.shift[3, 0].detach(), 1 - (place / 64) ** 0.9)
    torch.testing.assert_close(layer.shift[1, 0].detach(), 1 - (place / 64) ** 0.7)
    assert layer.project[1].abs().max() <= 0.05 / 8 < 0.4 / 8 < layer.project[0].abs().max() <= 0.5 / 8
    zigzag = ((place % 16) - 7.5) / 7.5
    decay = -6 + 6 * place / 63 + 0.5 + 2.5 * zigzag * zigzag.abs()
    torch.testing.assert_close(layer.decay_bias.detach(), decay, rtol=0, atol=1e-5)


def module(name: str) -> Any:
    """Import a module of another library, or skip the test without it (the extra `peers`)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", DeprecationWarning)
        return pytest.importorskip(name, reason=f"{name} is not installed")


def qwen() -> Any:
    return module("transformers.models.qwen3_next.modeling_qwen3_next")


def mamba_weights(layer: Mamba | Mamba2) -> dict[str, Tensor]:
    return {
        "in_proj.weight": layer.enter.weight,
        "conv1d.weight": layer.convolution.weight.T[:, None],
        "conv1d.bias": layer.convolution.bias,
        "D": layer.skip,
        "out_proj.weight": layer.out.weight,
    }


def mamba(layer: Mamba, x: Tensor) -> Tensor:
    config = module("transformers").MambaConfig(hidden_size=32, state_size=16, conv_kernel=4, expand=2)
    other = module("transformers.models.mamba.modeling_mamba").MambaMixer(config, 0)
    weights = {"x_proj.weight": layer.select.weight, "A_log": layer.log_a.T}
    weights |= {"dt_proj.weight": layer.step.weight, "dt_proj.bias": layer.step.bias}
    other.load_state_dict(weights | mamba_weights(layer))
    return other.eval()(x)


def mamba2(layer: Mamba2, x: Tensor) -> Tensor:
    config = module("transformers").Mamba2Config(
        hidden_size=32, num_heads=4, head_dim=16, state_size=32, n_groups=1, chunk_size=16
    )
    other = module("transformers.models.mamba2.modeling_mamba2").Mamba2Mixer(config, 0)
    weights = {"dt_bias": layer.step_bias, "A_log": layer.log_a, "norm.weight": layer.norm.weight}
    other.load_state_dict(weights | mamba_weights(layer))
    return other.eval()(x)


def gated_deltanet(layer: GatedDeltaNet, x: Tensor) -> Tensor:
    """The layer of transformers orders its projections by head."""
    config = module("transformers").Qwen3NextConfig(
        hidden_size=64, linear_num_value_heads=4, linear_num_key_heads=4, linear_key_head_dim=16,
        linear_value_head_dim=16, linear_conv_kernel_dim=4, rms_norm_eps=1e-5, num_hidden_layers=1,
    )  # fmt: skip
    other = qwen().Qwen3NextGatedDeltaNet(config, 0)
    q, k, v, z, b, a = layer.project.weight.split([64, 64, 64, 64, 4, 4])
    by_head = [part.unflatten(0, (4, 16)) for part in (q, k, v, z)]
    weights = {
        "in_proj_qkvz.weight": torch.cat(by_head, dim=1).flatten(0, 1),
        "in_proj_ba.weight": torch.stack([b, a], dim=1).flatten(0, 1),
        "conv1d.weight": layer.convolution.weight.mT[:, None],
        "A_log": layer.log_rate,
        "dt_bias": layer.step_bias,
        "norm.weight": layer.weight,
        "out_proj.weight": layer.out.weight,
    }
    other.load_state_dict(weights)
    return other(x)


def s5(layer: S5, x: Tensor) -> Tensor:
    """The library has both states of every pair."""
    other = module("s5").S5(16, 16)
    eigenvalues = torch.complex(layer.real, layer.imaginary)
    b, c = torch.view_as_complex(layer.b), torch.view_as_complex(layer.c)
    with torch.no_grad():
        other.seq.Lambda.copy_(torch.cat([eigenvalues, eigenvalues.conj()]))
        other.seq.B.copy_(torch.view_as_real(torch.cat([b, b.conj().resolve_conj()])))
        other.seq.C.copy_(torch.cat([c, c.conj()], dim=1))
        other.seq.D.copy_(layer.skip)
        other.seq.log_step.copy_(layer.log_step.repeat(2))
    return recurrences.s5_gate(layer, other(x))


def retention(layer: Retention, x: Tensor) -> Tensor:
    """yet-another-retnet takes its decays from another formula, which the layer gets here."""
    retention = module("yet_another_retnet.retention")
    other = retention.MultiScaleRetention(64, 4, bias=False, dtype=torch.float64)
    q, k, v, gate = layer.project.weight.chunk(4)
    weights = {"q_proj": q, "k_proj": k, "v_proj": v, "g_proj": gate, "out_proj": layer.out.weight}
    renamed = {f"{name}.weight": weight for name, weight in weights.items()}
    other.load_state_dict(other.state_dict() | renamed)
    layer.decay = 1 - 0.5 ** torch.linspace(5, 9, 4, dtype=torch.float64)
    return other.forward_parallel(x, x, x)[0]


LIBRARIES = {
    "mamba": (mamba, 32, 1e-4, 1e-5),
    "mamba-2": (mamba2, 32, 1e-4, 1e-4),
    "gated-deltanet": (gated_deltanet, 64, 0, 1e-4),
    "s5": (s5, 16, 1e-4, 1e-5),
    "retnet": (retention, 64, 0, 1e-9),
}
"""What the library gives, the width of the features, and the tolerances."""


@pytest.mark.parametrize("steps", [2, 8, 40, 64, 150])
@pytest.mark.parametrize("name", LIBRARIES)
def test_a_layer_is_the_layer_of_another_library(
    name: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "gated-deltanet":  # in torch operations: it would take kernels for GPUs
        for function in ("torch_chunk_gated_delta_rule", "causal_conv1d_fn"):
            monkeypatch.setattr(qwen(), function, inspect.unwrap(getattr(qwen(), function)))
    library, width, rtol, atol = LIBRARIES[name]
    dtype = torch.float64 if name == "retnet" else torch.float32
    made = perturb(layer(name)(width)).to(dtype)
    x = torch.randn(3, steps, width, dtype=dtype)
    expected = library(made, x)
    torch.testing.assert_close(made(x), expected, rtol=rtol, atol=atol)


def test_the_memory_of_an_mlstm_and_its_gradients_are_those_of_transformers_in_chunks() -> None:
    """With nothing added to the denominator: there the gradients do not depend on the stabiliser."""
    xlstm = module("transformers.models.xlstm.modeling_xlstm")
    q, k, v = torch.randn(3, 2, 4, 128, 8, dtype=torch.float64)
    write, keep = 3 * torch.randn(2, 2, 4, 128, dtype=torch.float64)
    inputs = [each.detach().requires_grad_() for each in (q, k, v, write, keep + 2)]
    q, k, v, write, keep = inputs
    got = read_memory(q, k, v, write, F.logsigmoid(keep), eps=0.0)
    expected = xlstm.mlstm_chunkwise_native_autograd(*inputs, chunk_size=32, eps=0.0)
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)
    weights = torch.randn_like(got)
    ours, theirs = (torch.autograd.grad((y * weights).sum(), inputs) for y in (got, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8)


def test_s5_begins_with_the_eigenvalues_of_hippo() -> None:
    eigenvalues, vectors = hippo(16)
    expected = module("s5.init").make_DPLR_HiPPO(16)[0]
    both = torch.cat([eigenvalues, eigenvalues.conj()])
    assert both.real.unique().tolist() == [-0.5]
    imaginary = both.imag.sort().values.double()
    torch.testing.assert_close(imaginary, torch.from_numpy(expected.imag), rtol=1e-5, atol=1e-5)
    n = torch.arange(16.0)
    normal = -((n[:, None] + 0.5) * (n + 0.5)).sqrt()
    normal = normal.tril(-1) - normal.tril(-1).T - 0.5 * torch.eye(16)
    product = normal.to(vectors.dtype) @ vectors
    torch.testing.assert_close(product, vectors * eigenvalues, rtol=1e-4, atol=1e-4)
