"""Cells and configurations: what they are in JSON, how options reach them, and cells of one's own."""

import json

from hypothesis import given, settings

from csprop import CSPConfig
from tests.helpers.options import configs, model


@settings(max_examples=100)
@given(config=configs())
def test_a_configuration_survives_json(config: CSPConfig) -> None:
    text = json.dumps(config.to_json())
    assert CSPConfig.from_json(json.loads(text)) == config
    assert len(json.loads(text)["cells"]) == config.depth == len(config.layers)
    for block, cell in zip(model(config).layers, config.layers, strict=True):
        assert block.cell == cell
        assert json.loads(text)["cells"]
