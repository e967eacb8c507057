"""Layers whose authors or others have published code give what that code gives for the same weights."""

import inspect
import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from csprop_lab.layers import layer
from csprop_lab.layers.fast_weights import FastWeights
from csprop_lab.layers.gated_deltanet import GatedDeltaNet, GatedDeltaProduct
from csprop_lab.layers.mamba import Mamba
from csprop_lab.layers.mamba2 import Mamba2
from csprop_lab.layers.mlstm import read_memory
from csprop_lab.layers.retnet import Retention
from csprop_lab.layers.s5 import S5, hippo
from tests.lab.layers import recurrences
from tests.lab.layers.mixers import perturb
from tests.lab.layers.recurrences import heads


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


def delta_rule(*inputs: Tensor) -> Tensor:
    return inspect.unwrap(qwen().torch_recurrent_gated_delta_rule)(*inputs)[0]


def fast_weights(layer: FastWeights, x: Tensor) -> Tensor:
    *vectors, beta = layer.project(x).split([64, 64, 64, 4], dim=2)
    q, k, v = (heads(part) for part in vectors)
    q, k = recurrences.dpfp(q) * 32**0.5, recurrences.dpfp(k)
    return layer.out(delta_rule(q, k, v, torch.zeros_like(beta), beta.sigmoid()).flatten(2))


def deltaproduct(layer: GatedDeltaProduct, x: Tensor) -> Tensor:
    """Two steps of the rule for each token; the first forgets, and the second is read."""
    qkv, gate, beta, step = layer.project(x).split([320, 64, 8, 4], dim=2)
    window = F.conv1d(F.pad(qkv.mT, (3, 0)), layer.convolution.weight.mT[:, None], groups=320).mT
    q, k, v = F.silu(window).split([64, 128, 128], dim=2)
    k, v = (y.unflatten(2, (2, 4, 16)) for y in (k, v))
    q, k = (y / (y.square().sum(-1, keepdim=True) + 1e-6).sqrt() for y in (heads(q), k))
    log_alpha = -layer.log_rate.exp() * F.softplus(step + layer.step_bias)
    log_alpha = torch.stack([log_alpha, torch.zeros_like(log_alpha)], dim=2)
    rates = 2 * beta.sigmoid().unflatten(2, (2, 4))
    steps = (y.flatten(1, 2) for y in (torch.stack([q, q], dim=2), k, v, log_alpha, rates))
    out = layer.weight * recurrences.rms_norm(delta_rule(*steps)[:, 1::2])
    return layer.out(out.flatten(2) * F.silu(gate))


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


CASES = {
    "mamba": (mamba, 32, 1e-4, 1e-5),
    "mamba-2": (mamba2, 32, 1e-4, 1e-4),
    "gated-deltanet": (gated_deltanet, 64, 0, 1e-4),
    "deltaproduct": (deltaproduct, 64, 0, 1e-4),
    "fast-weights": (fast_weights, 64, 0, 1e-4),
    "s5": (s5, 16, 1e-4, 1e-5),
    "retnet": (retention, 64, 0, 1e-9),
}
"""What the library gives, the width of the features, and the tolerances."""


@pytest.mark.parametrize("steps", [2, 8, 40, 64, 150])
@pytest.mark.parametrize("name", CASES)
def test_a_layer_is_the_layer_of_another_library(
    name: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "gated-deltanet":  # in torch operations: it would take kernels for GPUs
        for function in ("torch_chunk_gated_delta_rule", "causal_conv1d_fn"):
            monkeypatch.setattr(qwen(), function, inspect.unwrap(getattr(qwen(), function)))
    library, width, rtol, atol = CASES[name]
    dtype = torch.float64 if name == "retnet" else torch.float32
    made = perturb(layer(name)(width)).to(dtype)
    x = torch.randn(3, steps, width, dtype=dtype)
    expected = library(made, x)
    torch.testing.assert_close(made(x), expected, rtol=rtol, atol=atol)


def draw_memory(steps: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    query, key, value = torch.randn(3, 2, 4, steps, 8, dtype=torch.float64)
    write, keep = 3 * torch.randn(2, 2, 4, steps, dtype=torch.float64)
    return query, key, value, write, keep + 2


@pytest.mark.parametrize("steps", [1, 7, 64, 65, 200])
def test_the_memory_of_an_mlstm_is_the_one_of_transformers_step_by_step(steps: int) -> None:
    xlstm = module("transformers.models.xlstm.modeling_xlstm")
    q, k, v, write, keep = draw_memory(steps)
    expected = xlstm.mlstm_recurrent_sequence_native(
        q, k, v, write, keep, dtype_state=torch.float64, return_last_states=False
    )
    got = read_memory(q, k, v, write, F.logsigmoid(keep))
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


def test_the_memory_of_an_mlstm_and_its_gradients_are_those_of_transformers_in_chunks() -> None:
    """With nothing added to the denominator: there the gradients do not depend on the stabiliser."""
    xlstm = module("transformers.models.xlstm.modeling_xlstm")
    inputs = q, k, v, write, keep = draw_memory(128)
    for part in inputs:
        part.requires_grad_()
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
