"""`CSPLayer` with torch: compile, export, `torch.func`, hooks, checkpoints, the hub."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import PyTorchModelHubMixin
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint

from csprop import CSPLayer, use_backend
from csprop.nn.onnx import _quietly
from csprop.ops import native
from tests.helpers.recurrent import (
    FEATURES,
    INPUTS,
    KINDS,
    TOKENS,
    WIDTH,
    Abreast,
    draw_inputs,
    features,
    gradients,
    layer,
    model,
    tokens,
)

EVERY = pytest.mark.parametrize("name", KINDS)
needs_kernel = pytest.mark.skipif(bool(native.WHY_NOT), reason="the kernel is not compiled")


@pytest.mark.slow
def test_programs_take_any_length_and_load_after_the_import_of_the_operators(tmp_path: Path) -> None:
    """The first process compiles and exports, the second loads."""
    load = f"""
import torch, csprop.ops.operators
x, want = torch.load("{tmp_path}/net.pt")
torch.testing.assert_close(torch.export.load("{tmp_path}/net.pt2").module()(x), want)
"""
    for code in (["-m", "tests.helpers.recurrent", str(tmp_path)], ["-W", "ignore", "-c", load]):
        subprocess.run([sys.executable, *code], check=True)


@pytest.mark.usefixtures("unchecked_shapes")
@EVERY
@pytest.mark.parametrize("backend", ["reference", "torch", pytest.param("native", marks=needs_kernel)])
@pytest.mark.parametrize("ensemble", [False, True])
def test_gradients_of_examples(name: str, backend: str, ensemble: bool) -> None:
    """By one layer, or each by a layer of its own."""
    several, x = [layer(name, seed * ensemble).double() for seed in range(3)], features(3, 7).double()
    empty = copy.deepcopy(several[0]).to("meta")  # it has no values of its own
    given: Any = dict(several[0].named_parameters()), dict(several[0].named_buffers())
    if ensemble:
        given = torch.func.stack_module_state(several)  # pyright: ignore[reportArgumentType]
    dims = 0 if ensemble else None

    def loss_of(parameters: dict[str, Tensor], buffers: dict[str, Tensor], row: Tensor) -> Tensor:
        y, last = torch.func.functional_call(empty, (parameters, buffers), (row[None],))
        return y.square().sum() + last.square().sum()

    with use_backend(backend):
        each = torch.func.vmap(torch.func.grad(loss_of), (dims, dims, 0))(given[0], given[1], x)
        for number, made in enumerate(several):
            made.zero_grad()
            y, last = made(x[None, number])
            (y.square().sum() + last.square().sum()).backward()
            for key, parameter in made.named_parameters():
                want = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                torch.testing.assert_close(each[key][number], want, msg=key)


@pytest.mark.usefixtures("unchecked_shapes")
@EVERY
def test_second_derivatives_are_right_or_refused(name: str) -> None:
    made, x = layer(name, depth=1).double(), features(1, 4).double()

    def penalty(x: Tensor) -> Tensor:
        (slope,) = torch.autograd.grad(made(x)[0].square().sum(), x, create_graph=True)
        return slope.square().sum()

    with use_backend("reference"):
        (found,) = torch.autograd.grad(penalty(x.requires_grad_()), x)
        change = torch.zeros_like(x)
        change[0, 1, 2] = 1e-5
        sides = [penalty((x.detach() + sign * change).requires_grad_()).item() for sign in (1, -1)]
    if name != "counter":  # its gradient ignores the rounding
        assert found[0, 1, 2].item() == pytest.approx((sides[0] - sides[1]) / 2e-5, rel=1e-3, abs=1e-6)
    refused = r"no second derivatives here: use_backend\('reference'\)"
    if name != "router":  # torch operations have them
        with pytest.raises(RuntimeError, match=refused):
            penalty(x)
    if name == "resonator" and not native.WHY_NOT:
        slope = torch.func.grad(lambda x: made(x)[0].square().sum())
        with pytest.raises(RuntimeError, match=refused):
            torch.func.grad(lambda x: slope(x).square().sum())(x.detach())


@EVERY
def test_a_layer_can_skip_its_initialisation(name: str) -> None:
    skipped = nn.utils.skip_init(CSPLayer, FEATURES, WIDTH, depth=2, **KINDS[name]).eval()
    skipped.load_state_dict(layer(name).state_dict())
    assert torch.equal(skipped(features(2, 5))[0], layer(name)(features(2, 5))[0])
    placed = layer(name, device="meta", dtype=torch.float64)
    assert {(each.device.type, each.dtype) for each in placed.parameters()} == {("meta", torch.float64)}


@pytest.mark.parametrize("name", ["paper", "rotor of order 4", "router"])
def test_streams_are_copied(name: str) -> None:
    stream = model(name).stream()
    for token in (0, 1, 1):
        stream.step(token)
    others = [pickle.loads(pickle.dumps(stream)), copy.deepcopy(stream), copy.copy(stream)]
    want, end = stream.step(0), stream.state
    for other in others:
        assert torch.equal(other.step(0), want)
        assert torch.equal(other.state, end)


ROTOR = "cell.angle.bias cell.angle.weight cell.gate.bias cell.gate.weight cell.h0 cell.skip"
NAMES = {
    "resonator": "cell.theta",
    "rotor": ROTOR,
    "rotor of order 3": ROTOR,
    "router": "cell.keys.bias cell.keys.weight cell.maps",
    "counter": "cell.skip",
    "switch": "cell.gate.bias cell.gate.weight cell.h0 cell.point cell.skip",
    "paper": "cell.angle.weight cell.gate.bias cell.gate.weight cell.skip",
}
PARTS = ["norm.weight", "norm.bias", "enter.weight", "enter.bias", "leave.weight", "leave.bias"]


@EVERY
def test_the_names_of_weights_stay(name: str) -> None:
    made, other = layer(name, vocab_size=TOKENS), layer(name, seed=9, vocab_size=TOKENS)
    parts = [*PARTS, *NAMES[name].split()]
    blocks = {f"blocks.{number}.{each}" for number in range(2) for each in parts}
    assert set(made.state_dict()) == blocks | {"embedding", "norm.weight", "norm.bias"}
    other.load_state_dict(made.state_dict())
    assert torch.equal(other(tokens(2, 5))[0], made(tokens(2, 5))[0])
    with pytest.raises(RuntimeError, match="Missing key"):
        other.load_state_dict({"norm.weight": torch.zeros(FEATURES)})


@EVERY
def test_activations_are_computed_again(name: str) -> None:
    made, x = layer(name, dropout=0.5).train(), features(2, 7).requires_grad_()
    wanted = [x, *made.parameters()]
    torch.manual_seed(1)
    want = gradients(made, x, wanted)
    torch.manual_seed(1)
    again = gradients(lambda x: checkpoint(made, x, use_reentrant=False), x, wanted)
    torch.testing.assert_close(again, want)


class Tagger(nn.Module, PyTorchModelHubMixin):
    """A network of a user, for the hub."""

    def __init__(self, kind: str = "resonator") -> None:
        super().__init__()
        self.layer = CSPLayer(FEATURES, WIDTH, kind, vocab_size=TOKENS)  # pyright: ignore

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


@pytest.mark.parametrize("kind", ["resonator", "rotor", "router", "counter", "switch", "paper"])
def test_a_network_on_the_hub(kind: str, tmp_path: Path) -> None:
    net = Tagger(kind).eval()
    net.save_pretrained(tmp_path)
    again = Tagger.from_pretrained(tmp_path)
    assert torch.equal(again(tokens(2, 5)), net(tokens(2, 5)))


@EVERY
def test_hooks_on_all_parts_run(name: str) -> None:
    made, x = layer(name, vocab_size=TOKENS, bidirectional=True), tokens(2, 5)
    calls: dict[str, int] = {}
    for key, part in made.named_modules():
        if not isinstance(part, nn.ModuleList):
            part.register_forward_hook(lambda *_, key=key: calls.update({key: calls.get(key, 0) + 1}))
    made(x)
    parts = [key for key, part in made.named_modules() if not isinstance(part, nn.ModuleList)]
    assert calls == dict.fromkeys(parts, 1)


def test_the_result_of_a_hook_is_used() -> None:
    made, x = layer("resonator"), features(2, 5)
    handle = made.blocks[1].register_forward_hook(lambda block, given, output: (given[0], output[1]))
    first, _ = made.layers[0](x)
    assert torch.equal(made(x)[0], made.norm(first))
    handle.remove()
    assert not torch.equal(made(x)[0], made.norm(first))


class _Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


@EVERY
@pytest.mark.parametrize("vocab_size", [None, TOKENS])
def test_parametrized_weights_are_used(name: str, vocab_size: int | None) -> None:
    """The weights of linear maps, and the angles of resonators."""
    made, other = layer(name, vocab_size=vocab_size), layer(name, vocab_size=vocab_size)
    found = 0
    for part, twin in zip(list(made.modules()), list(other.modules()), strict=True):
        for key in ("theta", "weight"):
            if hasattr(part, "theta" if key == "theta" else "in_features") and key in part._parameters:
                parametrize.register_parametrization(part, key, _Doubled())
                getattr(twin, key).data.mul_(2)
                found += 1
    assert found >= 4
    x = draw_inputs(made, 2, 5)
    torch.testing.assert_close(made(x), other(x), atol=1e-4, rtol=1e-4)
    made.train()(x)[0].square().sum().backward()
    enter: Any = made.layers[0].enter
    assert enter.parametrizations.weight.original.grad.any()


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked_shapes")
@torch.no_grad()
def test_onnx_is_the_same_at_every_length(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install 'csprop[onnx]'")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    net, path = Abreast().eval(), tmp_path / "net.onnx"
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("time")}
    with _quietly():
        program = torch.onnx.export(
            net, (torch.zeros(2, 3, INPUTS),), dynamo=True, optimize=False, verbose=False,
            dynamic_shapes=(sizes,),
        )  # fmt: skip
    assert program is not None
    program.save(path)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for batch, length in ((1, 1), (3, 16), (2, 150)):
        x = torch.randn(batch, length, INPUTS, generator=torch.Generator().manual_seed(length))
        got = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        truth = copy.deepcopy(net).double()(x.double())  # so that only ONNX rounds to float32
        for number, (mine, want) in enumerate(zip(got, truth, strict=True)):
            apart = (torch.from_numpy(mine) - want).abs().max() / want.abs().max().clamp(min=1)
            rounding = 2 * torch.finfo(torch.float32).eps * (length + 16)  # every step rounds
            assert apart < rounding, (list(KINDS)[number // 2], length)
