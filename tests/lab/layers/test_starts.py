"""Layers begin with the published weights, and with weights set by hand do what papers promise."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from csprop_lab.layers.attention import rotate
from csprop_lab.layers.basic import positions
from csprop_lab.layers.fast_weights import FastWeights
from csprop_lab.layers.gated_deltanet import GatedDeltaNet
from csprop_lab.layers.linear_attention import LinearAttention
from csprop_lab.layers.mamba import Mamba
from csprop_lab.layers.mamba2 import Mamba2
from csprop_lab.layers.megalodon import Megalodon
from csprop_lab.layers.pd_ssm import walk
from csprop_lab.layers.rwkv7 import RWKV7
from csprop_lab.layers.s4d import S4D
from tests.lab.layers.mixers import perturb


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


def test_positions_are_the_sines_and_cosines_of_the_transformer() -> None:
    table = positions(4, 6)
    for t in range(4):
        for i in range(3):
            rate = 10_000 ** (-2 * i / 6)
            assert table[t, 2 * i].item() == pytest.approx(math.sin(t * rate), rel=1e-5, abs=1e-6)
            assert table[t, 2 * i + 1].item() == pytest.approx(math.cos(t * rate), rel=1e-5)


def test_scores_of_attention_depend_on_the_distance_alone() -> None:
    query, key = torch.randn(2, 1, 8, dtype=torch.float64)
    scores = rotate(query.expand(9, 8)) @ rotate(key.expand(9, 8)).mT
    for distance in range(-8, 9):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    assert scores[0].diff().abs().min() > 1e-6


def test_fast_weights_read_a_value_as_it_was_last_written() -> None:
    """With β near 1 a key that has one feature gives the newest of its values, not a sum of them."""
    layer = FastWeights(64)
    with torch.no_grad():
        layer.project.weight.zero_()
        layer.project.weight[[0, 1, 64, 65], 0] = 1.0  # the query and the key of the first head
        layer.project.weight[128, 1] = 1.0  # its value
        layer.project.weight[192, 0] = 20.0  # its rate
        layer.out.weight.copy_(torch.eye(64))
        x = torch.zeros(1, 3, 64)
        x[0, :, 0], x[0, :, 1] = 1.0, torch.tensor([5.0, -2.0, 7.0])
        torch.testing.assert_close(layer(x)[0, :, 0], x[0, :, 1], rtol=0, atol=1e-4)


def test_the_weights_of_linear_attention_sum_to_one() -> None:
    """The same value at every step is given back, as by softmax attention."""
    layer = LinearAttention(64)
    with torch.no_grad():
        layer.project.weight[128:] = 0.0
        layer.out.weight.copy_(torch.eye(64))
        layer.out.bias.zero_()
        outputs = layer(torch.randn(2, 150, 64))
    torch.testing.assert_close(outputs, layer.project.bias[128:].expand(2, 150, 64), rtol=0, atol=1e-5)


def test_megalodon_s_attention_ends_with_the_chunk_and_its_average_does_not() -> None:
    layer, x = perturb(Megalodon(32), 0.2).double(), torch.randn(1, 66, 32, dtype=torch.float64)
    x[:, 0] *= 3
    silent = x.clone().index_fill_(1, torch.tensor([0]), 0.0)
    assert (layer(x) - layer(silent)).abs()[:, 65].max() > 1e-6
    with torch.no_grad():
        layer.average.eta.zero_()
        layer.timestep_norm.weight.zero_()
        layer.timestep_norm.bias.normal_()
    torch.testing.assert_close(layer(x)[:, 64], layer(x)[:, 0])


def test_a_pd_ssm_can_be_a_machine_that_merges_states() -> None:
    """Token 0 turns three states round, token 1 sends all of them to the first."""
    turn, merge = torch.eye(3).roll(1, 0), torch.eye(3)[:1].repeat(3, 1).T
    columns = 9 * torch.stack([turn.T, merge.T])
    tokens = torch.tensor([[0, 0, 1, 0, 0, 0, 1, 1, 0]])
    ones = torch.ones(1, 9, 3, dtype=torch.complex64)
    x = walk(F.one_hot(tokens, 2).float(), columns, ones, 0 * ones)
    assert x.abs().argmax(2).tolist() == [[1, 2, 0, 1, 2, 0, 0, 0, 1]]
    assert torch.equal(x.sum(2), torch.ones(1, 9, dtype=torch.complex64))
