"""The models to compare with see the past alone, and the state-space layer is its recurrence."""

from typing import get_args

import pytest
import torch

from csprop_lab.layers.basic import Kind, Peer, PeerConfig, SelectiveSSM, positions


def made(kind: Kind, seed: int = 0) -> Peer:
    config = PeerConfig(kind=kind, vocab_size=2, num_classes=3, width=8, depth=2)
    return Peer(config, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", get_args(Kind))
def test_a_score_depends_on_the_past_alone(kind: Kind) -> None:
    model, tokens = made(kind), torch.tensor([[0, 1, 1, 0, 1, 0, 0, 1]])
    changed = tokens.clone()
    changed[0, 5] = 1
    before, after = model(tokens), model(changed)
    assert before.shape == (1, 8, 3)
    torch.testing.assert_close(before[:, :5], after[:, :5])
    assert (before[:, 5:] - after[:, 5:]).abs().amax(dim=2).min() > 1e-6


@pytest.mark.parametrize("kind", get_args(Kind))
def test_the_generator_decides_the_weights(kind: Kind) -> None:
    torch.manual_seed(1)
    one = made(kind)
    torch.manual_seed(2)
    drawn = torch.rand(1)
    same, other = made(kind), made(kind, seed=1)
    for a, b in zip(one.parameters(), same.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(one.embedding.weight, other.embedding.weight)
    torch.manual_seed(2)
    assert torch.equal(drawn, torch.rand(1))


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_peer_learns(kind: Kind) -> None:
    """To say which token came first: the loss falls, and no parameter stays where it began."""
    model, tokens = made(kind), torch.randint(2, (8, 6), generator=torch.Generator().manual_seed(3))
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=0.02), []
    for _ in range(40):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(tokens)[:, -1], tokens[:, 0])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    still = [
        name for name, parameter in model.named_parameters() if torch.equal(parameter, before[name])
    ]
    assert still == []


@pytest.mark.parametrize("negative", [False, True])
def test_the_state_space_layer_is_its_recurrence(negative: bool) -> None:
    torch.manual_seed(0)
    layer, x = SelectiveSSM(3, negative), torch.randn(1, 5, 3)
    got = layer(x)[0]
    states = torch.zeros(2, 3)
    for t in range(5):
        delta, first, second, gate = layer.project(x[0, t]).chunk(4)
        kept = torch.sigmoid(delta)
        a = 2 * kept - 1 if negative else kept
        states = a * states + (1 - kept) * torch.stack([first, second])
        out = layer.out((states * gate * torch.sigmoid(gate)).flatten())
        torch.testing.assert_close(got[t], out)


def test_positions_are_the_sines_and_cosines_of_the_transformer() -> None:
    table = positions(4, 6)
    for t in range(4):
        for i in range(3):
            rate = 10_000 ** (-2 * i / 6)
            torch.testing.assert_close(table[t, 2 * i], torch.tensor(t * rate).sin())
            torch.testing.assert_close(table[t, 2 * i + 1], torch.tensor(t * rate).cos())
