import dataclasses
from typing import Any

import pytest
from csprop.nn.fields import essential

from csprop import CSPConfig
from csprop.errors import InputError
from csprop.nn.config import FIRST_OPTIONS

BASE: dict[str, Any] = {"vocab_size": 2, "num_classes": 2}


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"width": 0}, "width=0 is out of range: write 1 to 65536"),
        ({"depth": -1}, "depth=-1 is out of range: write 1 to 1024"),
        ({"width": 2.5}, "width=2.5 does not fit: write a whole number"),
        ({"width": True}, "width=True does not fit: write a whole number"),
        ({"rotate": "both"}, "rotate='both' does not fit: write one of 'input', 'state', 'none'"),
        ({"skip": "yes"}, "skip='yes' does not fit: write True or False"),
        ({"coupling_rank": 65}, r"coupling_rank=65 does not fit: write 0 \(no coupling\) to 64"),
        ({"coupling_rank": 1, "depth": 1}, "write depth=2 or more, or coupling_rank=0"),
        ({"coupling": "per_layer"}, "write coupling_rank=1 or more, or coupling='shared'"),
        ({"vocab_size": 0}, "vocab_size=0 is out of range: write 1"),
        ({"num_classes": 1}, "num_classes=1 is out of range: write 2"),
    ],
)
def test_what_makes_no_sense_is_rejected_with_what_to_write(
    wrong: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        CSPConfig(**BASE | wrong)


def test_a_config_is_frozen_and_defaults_to_the_printed_equations() -> None:
    config = CSPConfig(**BASE)
    assert (config.rotate, config.rotation, config.decay, config.gate) == (
        "input",
        "shared",
        "softplus",
        "shared",
    )
    assert (config.angle, config.projection, config.input_map) == ("tanh", "tanh", "none")
    assert (config.entrance, config.gate_input, config.recurrence) == (
        "softplus",
        "input",
        "sequential",
    )
    assert config.embedding == "complex"
    assert not config.released
    assert (config.decoder, config.norm, config.width, config.depth) == ("cos_sin", "complex", 64, 3)
    with pytest.raises(AttributeError):
        config.width = 3  # pyright: ignore


def test_unknown_and_missing_fields_are_named() -> None:
    with pytest.raises(InputError, match="'widht' is no option of CSPConfig"):
        CSPConfig.from_dict(BASE | {"widht": 3})
    with pytest.raises(InputError, match="CSPConfig lacks 'width'"):
        CSPConfig.from_dict(BASE)
    config = CSPConfig(**BASE, rotate="state")
    assert CSPConfig.from_dict(dataclasses.asdict(config)) == config


def test_a_configuration_from_before_an_option_has_its_default() -> None:
    config = CSPConfig(**BASE)
    saved = dataclasses.asdict(config)
    old = {name: saved[name] for name in FIRST_OPTIONS}
    assert CSPConfig.from_dict(old) == config
    assert essential(saved, CSPConfig, FIRST_OPTIONS) == old
    changed = dataclasses.asdict(CSPConfig(**BASE, angle="accumulated", input_map="linear"))
    assert essential(changed, CSPConfig, FIRST_OPTIONS) == old | {
        "angle": "accumulated",
        "input_map": "linear",
    }
