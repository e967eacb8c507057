"""Layers that route: soft while they train, hard otherwise, and refused where they make no sense."""

import dataclasses
import json
from typing import Any

import pytest
import torch
from torch import Generator

from csprop import CSP, CSPConfig
from csprop.errors import InputError
from csprop.nn.config import ModelOptions
from csprop.nn.router import Router, lead

ROUTER: dict[str, Any] = {
    "width": 8, "depth": 1, "places": 4, "rotate": "none", "decay": "none", "activation": "none",
    "skip": False, "norm": "none", "h0": "place", "decoder": "linear",
}  # fmt: skip
TURNING: dict[str, Any] = {"rotate": "state", "rotation": "per_channel", "angle": "free"}


def model(vocab: int = 3, seed: int = 0, **changes: Any) -> CSP:
    config = CSPConfig(vocab_size=vocab, num_classes=2, **ROUTER | changes)
    return CSP(config, Generator().manual_seed(seed))


@pytest.mark.parametrize(("vocab", "width"), [(2, 1), (40, 4), (1000, 8)])
def test_every_token_chooses_its_own_map(vocab: int, width: int) -> None:
    """Also where there are more tokens than numbers in a row."""
    for seed in range(3):
        net = model(vocab, seed, width=width, places=width)
        scores, _ = net.routers[0].transition(net.embedding[None])
        assert scores[0].argmax(dim=1).tolist() == list(range(vocab))


def test_a_cold_column_is_the_hard_one() -> None:
    net, tokens = model(**TURNING), torch.randint(3, (5, 20), generator=Generator().manual_seed(1))
    hard = net.eval()(tokens)
    distances = []
    for temperature in (1.0, 0.1, 1e-3, 1e-6):
        net.train().routers[0].temperature = temperature
        distances.append(float((net(tokens) - hard).detach().abs().max()))
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 1e-4 < distances[0]


@pytest.mark.parametrize("changes", [{}, TURNING, {"depth": 2}, {"maps": 2, "h0": "learned"}])
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
    turning = {"blocks.0.angle.weight", "blocks.0.angle.bias"}
    assert gradients(model(**TURNING)) == {"blocks.0.maps"} | turning | decoder


def test_the_choice_of_a_map_is_learned_elsewhere() -> None:
    net = model(maps=2)
    assert gradients(net) == {name for name, _ in net.named_parameters()}
    second = model(depth=2)
    assert {"blocks.1.keys.weight", "blocks.1.keys.bias"} <= gradients(second)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            {"places": 3},
            "places=3 does not divide the channels into groups: write a divisor of width=8",
        ),
        ({"decay": "unit"}, "decay='unit' does not go with places"),
        ({"rotate": "input"}, "rotate='input' does not go with places"),
        ({"activation": "step"}, "activation='step' does not go with places"),
        ({"h0": "zero"}, "write h0='place' or 'learned', or places=0"),
        ({"depth": 2, "coupling_rank": 1}, "coupling_rank=1 does not go with places"),
        ({"places": 0}, "h0='place' is where a router starts: write `places`, or another `h0`"),
        ({"places": 0, "h0": "zero", "maps": 2}, "maps=2 are those of a router"),
        ({"kinds": ("router",), "depth": 2}, "`kinds` names 1 layers, but depth=2"),
        ({"kinds": ("wheel",)}, "write a list of rotor or router"),
        ({"kinds": "router"}, "write a list of rotor or router"),
        ({"kinds": ("router",), "places": 3}, "layer 1, a router: places=3 does not divide"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        model(**wrong)


def test_a_layer_without_tokens_needs_a_number_of_maps() -> None:
    draws = Generator().manual_seed(0)
    with pytest.raises(InputError, match="this layer has no tokens: write maps"):
        Router(ModelOptions(**ROUTER), draws)
    given: dict[str, Any] = ROUTER | {"maps": 5}
    assert Router(ModelOptions(**given), draws).maps.shape == (5, 2, 4, 4)


def test_kinds_make_each_layer_its_own_and_survive_json() -> None:
    config = CSPConfig(vocab_size=3, num_classes=2, width=8, depth=3, decoder="linear",
                       kinds=("rotor", "router", "rotor"), places=4)  # fmt: skip
    again = CSPConfig.from_dict(json.loads(json.dumps(dataclasses.asdict(config))))
    assert again == config
    assert isinstance(again.kinds, tuple)
    first, middle, last = CSP(config).layers
    assert (type(first).__name__, type(middle).__name__, type(last).__name__) == (
        "Block", "Router", "Block",
    )  # fmt: skip
    assert (first.options.decay, middle.options.decay) == ("switch", "none")
    assert middle.options.places == 4
    assert config.of_layer(0) == last.options


def test_the_lead_is_that_over_the_second_best() -> None:
    scores = torch.tensor([[3.0, 1.0], [3.5, 1.0], [-2.0, 0.0]])
    assert lead(scores, dim=0).tolist() == [0.5, 0.0]
    assert lead(scores[:, :1], dim=1).tolist() == [torch.inf] * 3
