"""The mLSTM is its recurrence, and remembers what the transformers library's does."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.models.xlstm.modeling_xlstm import (  # pyright: ignore
    mlstm_chunkwise_native_autograd,
    mlstm_recurrent_sequence_native,
)

from csprop_lab.layers.mlstm import MLSTM, remembered


def made(width: int = 16) -> MLSTM:
    """In float64, with gates that depend on the input, as they do after training."""
    torch.manual_seed(0)
    layer = MLSTM(width).double()
    torch.nn.init.normal_(layer.gates.weight, std=1.0)
    torch.nn.init.normal_(layer.scale)
    torch.nn.init.normal_(layer.skip)
    return layer


def by_loop(layer: MLSTM, x: Tensor) -> Tensor:
    """One sequence (T, width), without a stabiliser: the paper's equations as they stand."""
    inner = 2 * x.shape[1]
    size = inner // 4
    memory, total = torch.zeros(4, size, size, dtype=x.dtype), torch.zeros(4, size, dtype=x.dtype)
    seen, rows = torch.zeros(4, inner, dtype=x.dtype), []
    query_key, values = layer.query_key.weight, layer.value.weight
    query_map, key_map = (torch.block_diag(*query_key[:, part]) for part in (0, 1))
    value_map = torch.block_diag(*values[:, 0])
    for entered in x:
        up = layer.up.weight @ entered
        seen = torch.cat([seen[1:], up[None, :inner]])
        recent = F.silu((layer.conv.weight * seen).sum(0) + layer.conv.bias)
        q, k, v = query_map @ recent, key_map @ recent, value_map @ up[:inner]
        together = torch.stack([q.view(-1, 4), k.view(-1, 4), v.view(-1, 4)], dim=1).flatten()
        gates = layer.gates.weight @ together + layer.gates.bias
        hidden = []
        for head in range(4):
            part = slice(head * size, (head + 1) * size)
            i, f = gates[head].exp(), gates[4 + head].sigmoid()
            scaled = k[part] / math.sqrt(size)
            memory[head] = f * memory[head] + i * torch.outer(v[part], scaled)
            total[head] = f * total[head] + i * scaled
            h = memory[head] @ q[part] / (total[head] @ q[part]).abs().clamp(min=1)
            hidden.append((h - h.mean()) / (h.var(unbiased=False) + 1e-5).sqrt())
        h = torch.cat(hidden) * layer.scale + layer.skip * recent
        rows.append(layer.down.weight @ (h * F.silu(up[inner:])))
    return torch.stack(rows)


@pytest.mark.parametrize("steps", [1, 5, 64, 65, 150])
def test_the_layer_is_its_recurrence(steps: int) -> None:
    """Up to the library's 1e-6 in the denominator, which the paper does not have."""
    layer, x = made(), torch.randn(2, steps, 16, dtype=torch.float64)
    with torch.no_grad():
        want = torch.stack([by_loop(layer, row) for row in x])
        torch.testing.assert_close(layer(x), want, rtol=1e-4, atol=1e-4)
        close = layer.float()(x.float()).double()
    torch.testing.assert_close(close, want, rtol=1e-3, atol=1e-3)


def entering(steps: int) -> list[Tensor]:
    torch.manual_seed(1)
    query, key, value = torch.randn(3, 2, 4, steps, 8, dtype=torch.float64)
    write, keep = 3 * torch.randn(2, 2, 4, steps, dtype=torch.float64)
    return [query, key, value, write, keep + 2]


@pytest.mark.parametrize("steps", [1, 7, 64, 65, 200])
def test_the_memory_is_the_one_of_transformers_step_by_step(steps: int) -> None:
    query, key, value, write, keep = entering(steps)
    want = mlstm_recurrent_sequence_native(
        query, key, value, write, keep, dtype_state=torch.float64, return_last_states=False
    )
    torch.testing.assert_close(
        remembered(query, key, value, write, F.logsigmoid(keep)), want, rtol=1e-9, atol=1e-9
    )


def test_values_and_gradients_are_those_of_transformers_in_chunks() -> None:
    """With nothing added to the denominator: there the gradients do not depend on the stabiliser."""
    given = [part.requires_grad_() for part in entering(128)]
    query, key, value, write, keep = given
    got = remembered(query, key, value, write, F.logsigmoid(keep), eps=0.0)
    want = mlstm_chunkwise_native_autograd(query, key, value, write, keep, chunk_size=32, eps=0.0)
    assert isinstance(want, Tensor)
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)
    weights = torch.randn_like(got)
    for mine, its in zip(
        torch.autograd.grad((got * weights).sum(), given),
        torch.autograd.grad((want * weights).sum(), given),
        strict=True,
    ):
        torch.testing.assert_close(mine, its, rtol=1e-8, atol=1e-8)


def test_gates_of_any_size_have_finite_gradients() -> None:
    torch.manual_seed(3)
    layer = MLSTM(64)
    torch.nn.init.normal_(layer.gates.weight, std=3.0)
    x = (100 * torch.randn(1, 130, 64)).requires_grad_()
    layer(x).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
