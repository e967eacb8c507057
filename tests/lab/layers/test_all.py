"""Every layer of the registry, alone, in the frame of the comparison and in the study's networks."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import get_args

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from csprop_lab.layers import OWN, PEERS, layer
from csprop_lab.layers.basic import Kind, Peer, PeerConfig
from csprop_lab.layers.frame import Frame, FrameConfig
from tests.lab.layers.recurrences import perturb

NAMES = list(PEERS)
KINDS: tuple[Kind, ...] = get_args(Kind)
Model = Frame | Peer


def make_frame(name: str, seed: int = 0, depth: int = 2) -> Frame:
    config = FrameConfig(layer=name, vocab_size=2, num_classes=3, width=16, depth=depth)
    return Frame(config, Generator().manual_seed(seed))


def make_peer(kind: Kind, seed: int = 0, depth: int = 2) -> Peer:
    config = PeerConfig(kind=kind, vocab_size=2, num_classes=3, width=16, depth=depth)
    return Peer(config, Generator().manual_seed(seed))


@pytest.mark.parametrize("name", NAMES)
def test_a_step_depends_on_the_past_of_its_own_sequence_alone(name: str) -> None:
    """A change at a step, also at the edges of chunks, changes what follows and nothing before."""
    made, generator = perturb(layer(name)(64)).double().eval(), Generator().manual_seed(1)
    x, other = torch.randn(2, 2, 150, 64, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        before = made(x)
        for at in (0, 39, 40, 63, 64, 149):
            changed = x.clone()
            changed[:, at] = other[:, at]
            after = made(changed)
            torch.testing.assert_close(before[:, :at], after[:, :at], rtol=1e-9, atol=1e-10)
            apart = (before - after)[:, at : at + 4].abs().amax(dim=2)
            assert apart[:, 0].min() > 1e-6
            assert apart.min() > 1e-9, "it remembers nothing"
        other[0] = x[0]
        torch.testing.assert_close(made(other)[0], before[0])  # whatever the second sequence is


@pytest.mark.parametrize("kind", KINDS)
def test_a_score_depends_on_the_past_alone(kind: Kind) -> None:
    model, tokens = make_peer(kind), torch.tensor([[0, 1, 1, 0, 1, 0, 0, 1]])
    changed = tokens.clone()
    changed[0, 5] = 1
    before, after = model(tokens), model(changed)
    assert before.shape == (1, 8, 3)
    torch.testing.assert_close(before[:, :5], after[:, :5])
    assert (before[:, 5:] - after[:, 5:]).abs().amax(dim=2).min() > 1e-6


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("transformer", "rnn")])
def test_long_sequences_stay_finite(name: str) -> None:
    """At length 16,384 all is finite, also where the input is large or nothing."""
    x = torch.randn(3, 16_384, 64, generator=Generator().manual_seed(1))
    with torch.no_grad():
        assert layer(name)(64)(torch.tensor([0.0, 1.0, 30.0])[:, None, None] * x).isfinite().all()


MAKERS = [(make_frame, name) for name in NAMES] + [(make_peer, kind) for kind in KINDS]


@pytest.mark.parametrize(("make", "name"), MAKERS)
def test_the_generator_decides_the_weights(make: Callable[..., Model], name: str) -> None:
    torch.manual_seed(1)
    one = make(name)
    torch.manual_seed(2)
    same, other = make(name), make(name, seed=1)
    drawn = torch.rand(1)
    torch.testing.assert_close(one.state_dict(), same.state_dict(), rtol=0, atol=0)
    layers = zip(one.state_dict().items(), other.state_dict().values(), strict=True)
    assert [key for (key, a), b in layers if "layer" in key and not torch.equal(a, b)]
    torch.manual_seed(2)
    assert torch.equal(drawn, torch.rand(1)), "the global generator was drawn from"


ROWS = torch.tensor(list(product([0, 1], repeat=6)))


def losses(model: Model, tokens: Tensor = ROWS) -> Iterator[float]:
    """Train a model to say which token came first, of all rows of six tokens.

    The first token says nothing of the others. A model that sees fewer than six steps never gets below
    log 2, which leaves out short convolutions where there is one block.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens)[:, -1], tokens[:, 0])
        loss.backward()
        optimizer.step()
        yield loss.item()


@pytest.mark.parametrize(("make", "name"), [case for case in MAKERS if case[1] != "csprop-rotor"])
def test_every_layer_learns(make: Callable[..., Model], name: str) -> None:
    """And every parameter has a gradient. A rotor seldom learns what came first, because every later
    token turns its state; see docs/notes/layer.md. Without norms an RNN learns fewer rows."""
    model = make(name, depth=1)
    reached: set[str] = set()
    loss = 1.0
    for loss in losses(model, ROWS[::7] if name == "RNN" else ROWS):
        for key, parameter in model.named_parameters():
            if parameter.grad is not None and parameter.grad.count_nonzero():
                assert parameter.grad.isfinite().all(), key
                reached.add(key)
        if loss < 0.5:
            break
    assert loss < 0.5
    assert [key for key, _ in model.named_parameters() if key not in reached] == []


def test_a_layer_without_memory_does_not_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OWN, "none", lambda width: nn.Linear(width, width))
    assert min(losses(make_frame("none", depth=1))) > 0.69
