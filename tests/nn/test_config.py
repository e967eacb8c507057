"""The configuration of a model: what can be written, and its JSON."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given

from csprop import CSPConfig
from csprop.cells import Cell, Counter, Paper, Rotor, Router, Switch
from csprop.cells.block import Block
from csprop.errors import InputError
from tests.helpers.options import CELLS, models

BASE: dict[str, Any] = {"vocab_size": 2, "num_classes": 2}


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"width": 0}, "width=0 is out of range: write 1 to 65536"),
        ({"depth": -1}, "depth=-1 is out of range: write 1 to 1024"),
        ({"width": 2.5}, "width=2.5 does not fit: write a whole number"),
        ({"width": True}, "width=True does not fit: write a whole number"),
        ({"vocab_size": 0}, "vocab_size=0 is out of range: write 1"),
        ({"num_classes": 1}, "num_classes=1 is out of range: write 2"),
        ({"decoder": "angle"}, "decoder='angle' does not fit: write one of 'cos_sin'"),
        ({"cell": "paper"}, "'paper' is not a cell"),
        ({"cell": Rotor(order=3), "decoder": "phase"}, "decoder='phase' reads complex numbers"),
        ({"cell": Router(places=3), "width": 8}, "places=3 does not divide width=8 into groups"),
        ({"cell": Paper(coupling_rank=1), "depth": 1}, "coupling_rank=1 joins neighbouring layers"),
        ({"cell": Paper(coupling_rank=65)}, "a rank of at most 64, the width"),
        ({"cells": [Rotor(order=3), Rotor()]}, "must have states of the same order"),
        ({"cells": [Paper(coupling_rank=1), Rotor()]}, "coupling_rank joins layers of one kind"),
    ],
)
def test_a_wrong_model_is_refused(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        CSPConfig(**BASE | wrong)


@pytest.mark.parametrize(
    ("kind", "wrong", "sentence"),
    [
        (
            Paper,
            {"rotate": "both"},
            "rotate='both' does not fit: write one of 'input', 'state', 'none'",
        ),
        (Paper, {"skip": "yes"}, "skip='yes' does not fit: write True or False"),
        (Paper, {"coupling_rank": -1}, "coupling_rank=-1 is out of range"),
        (Paper, {"coupling": "per_layer"}, "coupling='per_layer' needs a rank"),
        (Rotor, {"order": 1}, "order=1 is out of range: write 2 to 16"),
        (Router, {"maps": -1}, "maps=-1 is out of range"),
    ],
)
def test_a_wrong_option_of_a_cell_is_refused(
    kind: type[Cell], wrong: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        kind(**wrong)


def test_a_config_is_frozen_and_has_the_printed_defaults() -> None:
    config = CSPConfig(**BASE)
    assert (config.decoder, config.width, config.depth) == ("cos_sin", 64, 3)
    printed = Paper(
        rotate="input", rotation="shared", decay="softplus", gate="shared", activation="boundary",
        skip=True, norm="complex", h0="zero", coupling_rank=0, coupling="shared",
    )  # fmt: skip
    assert config.layers == (printed,) * 3
    for each, name in ((config, "width"), (config.cell, "rotate")):
        with pytest.raises(AttributeError):
            setattr(each, name, 3)


def test_cells_that_are_alike_are_one_cell() -> None:
    mixed = CSPConfig(**BASE, cells=[Counter(), Switch()])
    assert (mixed.depth, mixed.layers) == (2, (Counter(), Switch()))
    assert CSPConfig(**BASE, cells=[Rotor(), Rotor()]) == CSPConfig(**BASE, cell=Rotor(), depth=2)


@given(config=models())
def test_json_gives_the_configuration_back(config: CSPConfig) -> None:
    document = json.loads(json.dumps(config.to_json()))
    assert len(document["cells"]) == config.depth
    assert CSPConfig.from_json(document) == config


@pytest.mark.parametrize("name", CELLS)
def test_an_option_that_json_lacks_has_its_default(name: str) -> None:
    document = CELLS[name].to_json()
    kind = {"kind": document.pop("kind")}
    assert Cell.from_json(kind) == type(CELLS[name])()
    changed = {
        key: value for key, value in document.items() if value != getattr(type(CELLS[name])(), key)
    }
    assert Cell.from_json(kind | changed) == CELLS[name]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"widht": 3}, "'widht' is not an option of a model: it has vocab_size"),
        ({"width": None}, "a model needs 'width'"),
        ({"cells": None}, "a model needs `cells`, a list"),
        ({"cells": []}, "`cells` has 0 entries, but depth is 1"),
        ({"cells": [{"kind": "wheel"}]}, "there is no cell of the kind 'wheel': choose from paper"),
        ({"cells": [{}]}, "there is no cell of the kind None"),
        (
            {"cells": [{"kind": "nowhere:Own"}]},
            "there is no cell of the kind 'nowhere:Own': import nowhere",
        ),
        ({"cells": [{"kind": "switch", "order": 2}]}, "'order' is not an option of the cell switch"),
        ({"cells": [{"kind": "rotor", "order": "2"}]}, "order='2' does not fit"),
    ],
)
def test_a_wrong_json_is_refused(change: dict[str, Any], sentence: str) -> None:
    document = CSPConfig(**BASE, depth=1).to_json() | change
    kept = {name: value for name, value in document.items() if value is not None}
    with pytest.raises(InputError, match=sentence):
        CSPConfig.from_json(kept)


@dataclass(frozen=True, kw_only=True)
class Own(Cell):
    """A cell of a user."""

    strength: float = 1.0

    def make(self, shape: Any, generator: torch.Generator) -> Block:
        raise NotImplementedError


def test_a_cell_of_a_user_goes_through_json_under_the_name_of_its_module() -> None:
    config = CSPConfig(**BASE, cell=Own(strength=2.0))
    document = json.loads(json.dumps(config.to_json()))
    assert document["cells"][0]["kind"] == f"{__name__}:Own"
    assert CSPConfig.from_json(document) == config
