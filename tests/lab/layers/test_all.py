"""Every layer of the registry, in the frame that all of them are compared in."""

from collections.abc import Iterator
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from csprop_lab.layers import OWN, PEERS, layer
from csprop_lab.layers.frame import Frame, FrameConfig
from tests.helpers import mixers

NAMES = list(PEERS)
AT_ZERO = ("rwkv-7", "csprop-rotor")
"""Layers in which some weights start at 0, or are not reached from there."""


def made(name: str, seed: int = 0, depth: int = 2) -> Frame:
    config = FrameConfig(layer=name, vocab_size=2, num_classes=3, width=16, depth=depth)
    return Frame(config, torch.Generator().manual_seed(seed))


def alone(name: str) -> nn.Module:
    torch.manual_seed(0)
    return layer(name)(64)


@pytest.mark.parametrize("name", NAMES)
def test_a_step_depends_on_the_past_of_its_own_sequence_alone(name: str) -> None:
    mixers.check_causal(mixers.drawn(alone(name)))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in AT_ZERO])
def test_gradients_reach_every_weight(name: str) -> None:
    mixers.check_gradients(alone(name))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("transformer", "rnn")])
def test_long_sequences_stay_finite(name: str) -> None:
    mixers.check_long(alone(name))


@pytest.mark.parametrize("name", NAMES)
def test_the_generator_decides_the_weights(name: str) -> None:
    torch.manual_seed(1)
    one = made(name)
    torch.manual_seed(2)
    same, other = made(name), made(name, seed=1)
    drawn = torch.rand(1)
    for a, b in zip(one.state_dict().values(), same.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    layers = zip(one.blocks.state_dict().items(), other.blocks.state_dict().values(), strict=True)
    different = [key for (key, a), b in layers if ".layer." in key and not torch.equal(a, b)]
    assert different
    torch.manual_seed(2)
    assert torch.equal(drawn, torch.rand(1)), "the global generator was drawn from"


def losses(model: Frame) -> Iterator[float]:
    """While it learns to say which token came first, of all rows of six tokens.

    The first token says nothing of the others, so that a model that sees fewer than six steps never
    gets below log 2. That leaves short convolutions out, where there is one block.
    """
    tokens = torch.tensor(list(product([0, 1], repeat=6)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens)[:, -1], tokens[:, 0])
        loss.backward()
        optimizer.step()
        yield loss.item()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "csprop-rotor"])
def test_every_layer_learns(name: str) -> None:
    """And every parameter has a gradient. (What a rotor has seen is turned by every later token, so
    that it seldom learns what came first; docs/notes/layer.md has more on it.)"""
    model = made(name, depth=1)
    reached: set[str] = set()
    seen = []
    for loss in losses(model):
        seen.append(loss)
        for key, parameter in model.named_parameters():
            if parameter.grad is not None and parameter.grad.count_nonzero():
                assert parameter.grad.isfinite().all(), key
                reached.add(key)
        if loss < 0.5:
            break
    assert seen[-1] < 0.5
    assert [key for key, _ in model.named_parameters() if key not in reached] == []


def test_a_layer_without_memory_does_not_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OWN, "none", lambda width: nn.Linear(width, width))
    assert min(losses(made("none", depth=1))) > 0.69
