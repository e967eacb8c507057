"""Networks around one layer of features: what they are made of, and what their weights hang on."""

from typing import get_args

import pytest
import torch

from csprop import CSPLayer
from csprop_lab.signals.networks import Network, NetworkConfig, NetworkKind


def made(kind: NetworkKind, seed: int = 0, vocab_size: int = 5, last: bool = False) -> Network:
    config = NetworkConfig(
        kind=kind, vocab_size=vocab_size, num_classes=3, features=8, width=6, last=last
    )
    return Network(config, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", get_args(NetworkKind))
def test_tokens_and_numbers_give_scores_of_every_step_or_of_the_last(kind: NetworkKind) -> None:
    draws = torch.Generator().manual_seed(0)
    for vocab_size in (5, 0):
        x = torch.randint(5, (2, 7), generator=draws) if vocab_size else torch.randn(2, 7, 1)
        every, last = (made(kind, vocab_size=vocab_size, last=last)(x) for last in (False, True))
        assert every.shape == (2, 7, 3)
        torch.testing.assert_close(last, every[:, -1])


@pytest.mark.parametrize("kind", get_args(NetworkKind))
def test_the_generator_decides_the_weights(kind: NetworkKind) -> None:
    torch.manual_seed(1)
    one = made(kind)
    torch.manual_seed(2)
    drawn = torch.rand(1)
    torch.manual_seed(2)
    same, other = made(kind), made(kind, seed=1)
    assert torch.equal(drawn, torch.rand(1)), "torch's own generator is as it was"
    for a, b in zip(one.parameters(), same.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(one.head.weight, other.head.weight)


def test_the_layer_is_the_one_that_is_named() -> None:
    layers = {kind: made(kind).layer for kind in get_args(NetworkKind)}
    ours = layers["csprop"]
    assert isinstance(ours, CSPLayer)
    assert (ours.features, ours.vocab_size, ours.depth) == (8, 5, 1)
    assert (ours.layers[0].width, ours.layers[0].kind) == (6, "resonator")
    assert isinstance(layers["LSTM"].cells, torch.nn.LSTM)
    assert isinstance(layers["GRU"].cells, torch.nn.GRU)
