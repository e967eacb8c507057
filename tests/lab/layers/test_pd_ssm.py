"""PD-SSM is its recurrence with matrices, forwards and backwards."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from csprop_lab.layers.pd_ssm import PDSSM, walk
from tests.helpers import mixers


def made(width: int = 6, states: int = 5) -> PDSSM:
    torch.manual_seed(0)
    return PDSSM(width, states=states, matrices=3).double()


def by_loop(layer: PDSSM, u: Tensor) -> Tensor:
    """One sequence (T, width), as the paper has it: with matrices P and D and a straight-through P."""
    states = layer.columns.shape[1]
    x = torch.zeros(states, dtype=torch.complex128)
    x[0] = 1
    entering = torch.complex(layer.enter[::2], layer.enter[1::2])
    read = torch.complex(layer.read.weight[:, ::2], -layer.read.weight[:, 1::2])
    rows = []
    for step in u:
        selected = F.softmax(layer.select.weight @ step, dim=0)
        m = sum((s * matrix.T for s, matrix in zip(selected, layer.columns, strict=True)), start=0)
        assert isinstance(m, Tensor)
        soft = torch.stack([column.exp() / column.exp().sum() for column in m.T], dim=1)
        hard = torch.zeros_like(soft)
        for j in range(states):
            hard[m[:, j].argmax(), j] = 1
        p = hard + soft - soft.detach()
        phase = 2 * math.pi * torch.sigmoid(layer.phase(step))
        d = torch.sigmoid(layer.magnitude(step)) * torch.complex(phase.cos(), phase.sin())
        x = p.to(x.dtype) @ torch.diag(d) @ x + entering @ step.to(x.dtype)
        rows.append((read @ x).real + layer.read.bias + layer.skip * step)
    return torch.stack(rows)


@pytest.mark.parametrize("steps", [1, 2, 40, 200])
def test_values_and_gradients_are_those_of_the_recurrence(steps: int) -> None:
    layer, x = made(), torch.randn(2, steps, 6, dtype=torch.float64)
    mixers.check_same(layer, lambda x: torch.stack([by_loop(layer, row) for row in x]), x, 1e-8)


def test_it_can_be_a_machine_that_merges_states() -> None:
    """Token 0 turns three states round, token 1 sends all of them to the first."""
    turn, merge = torch.eye(3).roll(1, 0), torch.eye(3)[:1].repeat(3, 1).T
    columns = 9 * torch.stack([turn.T, merge.T])
    tokens = torch.tensor([[0, 0, 1, 0, 0, 0, 1, 1, 0]])
    ones = torch.ones(1, 9, 3, dtype=torch.complex64)
    x = walk(F.one_hot(tokens, 2).float(), columns, ones, 0 * ones)
    assert x.abs().argmax(2).tolist() == [[1, 2, 0, 1, 2, 0, 0, 0, 1]]
    assert torch.equal(x.sum(2), torch.ones(1, 9, dtype=torch.complex64))


def test_inputs_of_any_size_have_finite_gradients() -> None:
    torch.manual_seed(3)
    layer = PDSSM(64)
    u = (1_000 * torch.randn(1, 130, 64)).requires_grad_()
    layer(u).square().mean().backward()
    assert u.grad is not None
    assert u.grad.isfinite().all()
