"""The one function that decides whether blocks go through the compiled kernel, by its conditions."""

from typing import Any

import pytest
import torch

from csprop import CSP, CSPConfig, use_backend
from csprop.nn.kernel import for_kernel
from csprop.ops import native
from csprop.ops.native.tensors import Layer

pytestmark = pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)


def decided(net: CSP, whole: bool = True, **changes: Any) -> list[Layer] | None:
    order, width = net.config.order, net.config.width
    given = {"z": torch.zeros(2, 3, order, width), "state": torch.zeros(2, order, width)}
    return for_kernel(net.layers, **given | changes, whole=whole)


def model(**options: Any) -> CSP:
    return CSP(CSPConfig(vocab_size=2, num_classes=2, width=4, depth=2, **options))


def test_the_printed_blocks_fit_with_their_parameters_by_name() -> None:
    net = model()
    layers = decided(net)
    assert layers is not None
    for layer, block in zip(layers, net.layers, strict=True):
        assert layer.gate_weight is block.gate.weight
        assert layer.gate_bias is block.gate.bias
        assert layer.angle_weight is block.angle.weight
        assert layer.angle_bias.numel() == 0
        assert layer.skip is block.skip
        assert layer.start is block.h0


@pytest.mark.parametrize(
    "options",
    [
        {"activation": "step"},
        {"recall": True},
        {"order": 3, "rotate": "state", "angle": "free"},
    ],
)
def test_options_that_the_kernel_does_not_know(options: dict[str, Any]) -> None:
    net = model(**options)
    assert net.config.beyond_kernel == {next(iter(options))}
    assert decided(net) is None
    assert decided(net, whole=False) is None


@pytest.mark.parametrize("options", [{"coupling_rank": 2}, {"norm": "layer"}])
def test_what_torch_does_between_blocks(options: dict[str, Any]) -> None:
    assert decided(model(**options)) is None
    assert decided(model(**options), whole=False) is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"z": torch.zeros(0, 3, 2, 4)},
        {"z": torch.zeros(2, 3, 2, 4, dtype=torch.bfloat16)},
        {"z": torch.zeros(2, 3, 2, 4, device="meta")},
        {"state": torch.zeros(2, 2, 4, dtype=torch.float64)},
        {"reset": torch.zeros(2, 3)},
        {"coupled": torch.zeros(2, 3, 2, 4, dtype=torch.float64)},
    ],
)
def test_tensors_that_the_kernel_does_not_take(changes: dict[str, Any]) -> None:
    assert decided(model(), **changes) is None


def test_another_backend_and_parameters_of_other_shapes() -> None:
    net = model()
    with use_backend("torch"):
        assert decided(net) is None
    for name in ("skip", "gate.bias", "angle.weight"):
        net = model()
        module, _, last = name.rpartition(".")
        part = net.layers[1].get_submodule(module)
        setattr(part, last, torch.nn.Parameter(torch.zeros(3, 3)))
        assert decided(net) is None, name
