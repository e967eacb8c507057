"""Layers that route: soft while they train, hard otherwise."""

from typing import Any

import pytest
import torch
from torch import Generator

from csprop import CSP, CSPConfig, Router
from csprop.cells.options import Shape
from csprop.cells.router import RouterBlock, lead
from csprop.errors import InputError


def model(vocab: int = 3, seed: int = 0, width: int = 8, depth: int = 1, **options: Any) -> CSP:
    sizes: dict[str, Any] = {"vocab_size": vocab, "num_classes": 2, "width": width, "depth": depth}
    cell = Router(**{"places": 4, **options})
    return CSP(CSPConfig(**sizes, cell=cell, decoder="linear"), Generator().manual_seed(seed))


@pytest.mark.parametrize(("vocab", "width"), [(2, 1), (40, 4), (1000, 8)])
def test_every_token_chooses_its_own_map(vocab: int, width: int) -> None:
    """Also where there are more tokens than numbers in a row."""
    for seed in range(3):
        net = model(vocab, seed, width=width, places=width)
        scores, _ = net.routers[0].transition(net.embedding[None])
        assert scores[0].argmax(dim=1).tolist() == list(range(vocab))


def test_a_cold_column_is_the_hard_one() -> None:
    net, tokens = model(), torch.randint(3, (5, 20), generator=Generator().manual_seed(1))
    hard = net.eval()(tokens)
    distances = []
    for temperature in (1.0, 0.1, 1e-3, 1e-6):
        net.train().routers[0].temperature = temperature
        distances.append(float((net(tokens) - hard).detach().abs().max()))
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 1e-4 < distances[0]


@pytest.mark.parametrize("changes", [{}, {"depth": 2}, {"maps": 2}, {"places": 0}])
def test_steps_and_streams_are_hard_even_while_training(changes: dict[str, Any]) -> None:
    net, tokens = model(**changes), torch.randint(3, (1, 12), generator=Generator().manual_seed(2))
    state, stream = net.initial_state(), net.stream()
    stepped, streamed = [], []
    for token in tokens[0]:
        state, scores = net.step(state, token[None])
        stepped.append(scores)
        streamed.append(stream.step(int(token)))
    hard, last = net.eval()(tokens, return_state=True)
    torch.testing.assert_close(torch.stack(stepped, dim=1), hard)
    torch.testing.assert_close(torch.stack(streamed)[None], hard)
    torch.testing.assert_close(stream.state, last)


def test_a_hard_state_is_one_place_in_each_group() -> None:
    net, tokens = model().eval(), torch.randint(3, (4, 30), generator=Generator().manual_seed(3))
    _, last = net(tokens, return_state=True)
    assert last[:, 0, 0].unflatten(1, (2, 4)).sum(dim=2).eq(1).all()
    assert last[:, 0, 0].square().equal(last[:, 0, 0])
    assert not last[:, 0, 1].any()


def gradients(net: CSP) -> set[str]:
    tokens = torch.randint(3, (4, 9), generator=Generator().manual_seed(4))
    net.train()(tokens).square().sum().backward()
    return {
        name for name, value in net.named_parameters() if value.grad is not None and value.grad.any()
    }


def test_tokens_are_not_learned_where_they_choose_themselves() -> None:
    decoder = {"decoder.linear.weight", "decoder.linear.bias"}
    assert gradients(model()) == {"blocks.0.maps"} | decoder


def test_the_choice_of_a_map_is_learned_elsewhere() -> None:
    net = model(maps=2)
    assert gradients(net) == {name for name, _ in net.named_parameters()}
    second = model(depth=2)
    assert {"blocks.1.keys.weight", "blocks.1.keys.bias"} <= gradients(second)


def test_a_layer_without_tokens_needs_a_number_of_maps() -> None:
    with pytest.raises(InputError, match="this layer has no tokens: choose a number of maps"):
        RouterBlock(Router(places=4), Shape(8), Generator())
    assert RouterBlock(Router(places=4, maps=5), Shape(8), Generator()).maps.shape == (5, 2, 4, 4)


def test_the_lead_is_that_over_the_second_best() -> None:
    scores = torch.tensor([[3.0, 1.0], [3.5, 1.0], [-2.0, 0.0]])
    assert lead(scores, dim=0).tolist() == [0.5, 0.0]
    assert lead(scores[:, :1], dim=1).tolist() == [torch.inf] * 3
