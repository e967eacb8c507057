"""The one function that decides whether blocks go through the compiled kernel, by its conditions."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from csprop import CSP, CSPConfig, use_backend
from csprop.nn.block import Block
from csprop.nn.kernel import for_kernel
from csprop.ops import native
from csprop.ops.native.tensors import Layer

pytestmark = pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)


def decided(net: CSP, whole: bool = True, **changes: Any) -> list[Layer] | None:
    order, planes, width = net.config.order, net.config.planes, net.config.width
    given = {"z": torch.zeros(2, 3, order, width), "state": torch.zeros(2, planes, width)}
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
        {"angle": "accumulated"},
        {"projection": "affine"},
        {"projection": "atan2"},
        {"input_map": "linear"},
        {"entrance": "sine"},
        {"gate_input": "entering"},
        {"gate_input": "state"},
        {"norm": "root"},
    ],
)
def test_options_that_the_kernel_does_not_know(options: dict[str, Any]) -> None:
    net = model(**options)
    assert net.config.beyond_kernel == {next(iter(options))}
    assert decided(net) is None
    assert decided(net, whole=False) is None


def test_cumulative_sums_and_their_sine_are_beyond_the_kernel() -> None:
    net = model(recurrence="cumulative", entrance="sine", decay="exp")
    assert net.config.beyond_kernel == {"recurrence", "entrance"}
    assert decided(net) is None


@pytest.mark.parametrize("embedding", ["narrow", "scalar"])
def test_the_kernel_does_blocks_behind_any_embedding(embedding: str) -> None:
    assert decided(model(embedding=embedding)) is not None


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


class Nothing(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return 0 * super().forward(input)


class Around(nn.Module):
    """A part around another, as adapters have it."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: Tensor) -> Tensor:
        return 2 * self.part(x)


def changed(how: str) -> CSP:
    model = CSP(CSPConfig(width=8, depth=2, vocab_size=3, num_classes=2))
    block: Any = model.blocks[0]
    if how == "hook":
        block.angle.register_forward_hook(lambda module, given, found: 0 * found)
    elif how == "hook of a block":
        block.register_forward_hook(lambda module, given, found: (0 * found[0], found[1]))
    elif how == "subclass":
        block.gate.__class__ = Nothing
    elif how == "wrapped":
        block.gate = Around(block.gate)
    elif how == "decoder":
        model.decoder.linear = Around(model.decoder.linear)  # pyright: ignore
    elif how == "block":
        model.blocks[0] = Own(model.layers[0].options, torch.Generator().manual_seed(0))
    return model


class Own(Block):
    def forward(self, *given: Any, **named: Any) -> Any:
        out, last = super().forward(*given, **named)
        return 2 * out, last


@pytest.mark.parametrize("how", ["hook", "hook of a block", "subclass", "wrapped", "decoder", "block"])
def test_a_part_that_was_changed_does_what_it_does_in_torch(how: str) -> None:
    model, tokens = changed(how), torch.tensor([[0, 1, 2, 1]])
    with torch.no_grad():
        found = model(tokens)
        with use_backend("torch"):
            want = model(tokens)
        stream = model.stream()
        steps = torch.stack([stream.step(token) for token in tokens[0].tolist()])
        assert not torch.allclose(found, changed("not at all")(tokens), atol=1e-3)
    torch.testing.assert_close(found, want)
    torch.testing.assert_close(steps, want[0])


def test_pruned_and_normalised_parts_learn() -> None:
    """torch's utilities that set a weight in a hook, before every call."""
    model, tokens = changed("not at all"), torch.tensor([[0, 1, 2, 1]])
    block: Any = model.blocks[0]
    prune.l1_unstructured(block.angle, "weight", amount=0.5)
    nn.utils.spectral_norm(block.gate)
    for _ in range(2):
        model.zero_grad()
        model(tokens).square().sum().backward()
        assert block.angle.weight_orig.grad is not None
        assert block.gate.weight_orig.grad.any()
