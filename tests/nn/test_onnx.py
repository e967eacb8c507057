"""Models as ONNX files: onnxruntime computes the scores and states of torch."""

import copy
import json
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

import csprop
from csprop import CSP, CSPConfig
from csprop.errors import InputError
from csprop.nn import onnx as to_onnx
from csprop.nn.hub import Names
from csprop.tasks import Task
from csprop.training.presets import PRESETS, preset
from tests.helpers.zoo import unpack

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'csprop[onnx]'")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install 'csprop[onnx]'")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

LENGTHS, LONG, BATCHES = (1, 8, 16), 257, (1, 5)
TOKENS = 3
ULP = torch.finfo(torch.float32).eps  # what a step may be off, in another order of its sums
MODELS = {name: Task for name in PRESETS if name != "tracker"} | {
    f"rotor of order {order}": type("Turning", (Task,), {"order": order}) for order in (3, 5)
}
EXACT = {"router", "counter"}
"""Models with states that are places or counts."""
FAST = {"rotor", "counter"}

pytestmark = pytest.mark.usefixtures("unchecked_shapes")  # sizes of an exporter are symbols
Run = Callable[[Tensor, Tensor], list[Tensor]]


def model(name: str) -> CSP:
    layers = preset(name.split(" ")[0], MODELS[name]).model
    config = CSPConfig(vocab_size=TOKENS, num_classes=4, **vars(layers))
    return CSP(config, Generator().manual_seed(0)).eval()


def open_model(path: Path) -> Run:
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(tokens: Tensor, state: Tensor) -> list[Tensor]:
        given = {"tokens": tokens.numpy(), "state": state.detach().numpy()}
        return [torch.from_numpy(each) for each in session.run(["scores", "last_state"], given)]

    return run


def draw(*shape: int) -> Tensor:
    return torch.randint(TOKENS, shape, generator=Generator().manual_seed(sum(shape)))


def apart(got: Tensor, want: Tensor) -> float:
    """Return the largest difference, relative to the largest number if that is above 1."""
    assert got.shape == want.shape
    return float((got.double() - want.double()).abs().max() / want.abs().max().clamp(min=1))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in MODELS]
)
@torch.no_grad()
def test_every_preset_is_the_same_by_onnxruntime(name: str, tmp_path: Path) -> None:
    """Scores to 1e-5; states, and scores of long sequences, within the rounding of float32 in torch."""
    net, path = model(name), tmp_path / "model.onnx"
    net.to_onnx(path)
    run, wide = open_model(path), copy.deepcopy(net).double()
    for batch in BATCHES:
        for length in (*LENGTHS, LONG):
            tokens, before = draw(batch, length), draw(batch, 7)
            _, state = run(before, net.initial_state(0))
            for begin in (state[:0], state):
                first = state if len(begin) else net.initial_state(batch)
                want = net(tokens, first, return_state=True)
                exact = wide(tokens, first.double(), return_state=True)
                got = run(tokens, begin)
                for number, each in enumerate(got):
                    loose = number > 0 or length == LONG
                    rounding = apart(want[number], exact[number]) + length * ULP if loose else 0.0
                    assert apart(each, want[number]) <= 1e-5 + 4 * rounding, (batch, length, number)
                if name in EXACT:
                    assert torch.equal(got[1], want[1])
                    assert torch.equal(got[0].argmax(dim=2), want[0].argmax(dim=2))
    _weights_are_in_the_file_once(net, path)


def _weights_are_in_the_file_once(net: CSP, path: Path) -> None:
    """No step is written out: the graph has a Scan for each layer, whatever the length."""
    graph = onnx.load(path).graph
    assert [node.op_type for node in graph.node].count("Scan") == net.config.depth
    assert not any(node.op_type == "Loop" for node in graph.node)
    weights = 4 * sum(each.numel() for each in net.parameters())
    assert path.stat().st_size < 2 * weights + 40_000
    assert str(Path(csprop.__file__).parent).encode() not in path.read_bytes()


@pytest.mark.slow
@torch.no_grad()
def test_float64_is_the_same_at_every_length(tmp_path: Path) -> None:
    """By ONNX in NumPy: onnxruntime has no softplus of float64."""
    net, path = model("paper").double(), tmp_path / "model.onnx"
    net.to_onnx(path)
    run = onnx.reference.ReferenceEvaluator(str(path))
    for length in (*LENGTHS, LONG):
        tokens = draw(2, length)
        want = net(tokens, return_state=True)
        given = {"tokens": tokens.numpy(), "state": net.initial_state(0).numpy()}
        with np.errstate(over="ignore", invalid="ignore"):  # onnx's sigmoid computes e^x for large x
            both = zip(run.run(None, given), want, strict=True)
        for got, wanted in both:
            assert apart(torch.from_numpy(got), wanted) < 1e-5


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory, brackets: Path) -> dict[str, csprop.Run]:
    parity = unpack("parity", tmp_path_factory.mktemp("runs"))
    return {"finite": csprop.load(parity), "counting": csprop.load(brackets)}


@pytest.mark.parametrize("kind", ["finite", "counting"])
def test_a_certified_run_is_its_locked_model_to_the_last_digit(
    kind: str, locked: dict[str, csprop.Run], tmp_path: Path
) -> None:
    run, path = locked[kind], tmp_path / "model.onnx"
    assert run.locked is not None
    run.to_onnx(path)
    answer, nothing = open_model(path), run.locked.initial_state(0)
    for batch, length in ((1, 1), (5, 16), (2, 257)):
        tokens = draw(batch, length) % 2
        scores, state = answer(tokens, nothing)
        more, end = answer(tokens, state)
        twice, last = run.locked(tokens.repeat(1, 2), return_state=True)
        assert torch.equal(torch.cat([scores, more], dim=1), twice)
        assert torch.equal(end, last)
    said = {each.key: json.loads(each.value) for each in onnx.load(path).metadata_props}
    task = run.task
    assert said["vocab"] == list(task.vocab)
    assert (said["classes"], said["words"]) == (list(task.classes), task.words)
    for token in (-1, 2):
        with pytest.raises(Exception, match=r"(?i)out of|index|bound"):
            answer(torch.tensor([[0, token]]), nothing)


@torch.no_grad()
def test_a_run_as_trained(locked: dict[str, csprop.Run], tmp_path: Path) -> None:
    run, path = locked["finite"], tmp_path / "model.onnx"
    run.to_onnx(path, as_trained=True)
    tokens = draw(3, 257) % 2
    scores, _ = open_model(path)(tokens, run.model.initial_state(0))
    assert apart(scores, run.model(tokens)) < 1e-4
    assert torch.equal(scores.argmax(dim=2), run.model(tokens).argmax(dim=2))


def test_a_count_that_is_not_exact_is_not_a_number(tmp_path: Path) -> None:
    net, path = model("counter"), tmp_path / "model.onnx"
    net.to_onnx(path)
    run, tokens, state = open_model(path), draw(1, 40), net.initial_state(1).clone()
    assert run(tokens, state)[1].isfinite().all()
    state[:, 0, 0] = 2.0**24
    with pytest.raises(InputError, match="not exact"):
        net(tokens, state)
    assert run(tokens, state)[1].isnan().any()


def test_nothing_else_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A model that trains goes on training; names are written; nothing is logged."""
    net = model("router").train()
    net.decoder.eval()
    net.names = Names(("a", "b", "ü"), ("one", "two", "three", "four"), words=True)
    before, level = draw(2, 9), logging.getLogger("torch.onnx").level
    want = net(before)
    with caplog.at_level(logging.WARNING):
        net.to_onnx(tmp_path / "model.onnx")
    assert not caplog.records
    assert net.training
    assert net.routers[0].training
    assert not net.decoder.training
    assert logging.getLogger("torch.onnx").level == level
    assert torch.equal(net(before), want)
    found = {each.key: each.value for each in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert found["vocab"] == '["a", "b", "ü"]'
    assert found["words"] == "true"
    with pytest.raises(Exception, match=r"[Dd]imension|[Ss]hape"):  # one state for four rows
        open_model(tmp_path / "model.onnx")(draw(4, 5), net.initial_state(1))


@pytest.mark.parametrize("path", ["missing/model.onnx", "."])
def test_a_path_that_cannot_be_written(path: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="name of a file in a directory that exists"):
        model("router").to_onnx(tmp_path / path)
    assert not list(tmp_path.iterdir())


def test_without_onnx(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(to_onnx, "find_spec", lambda name: None if name == "onnxscript" else name)
    with pytest.raises(InputError, match=r"pip install 'csprop\[onnx\]'"):
        model("router").to_onnx(tmp_path / "model.onnx")


def test_the_command(locked: dict[str, csprop.Run], tmp_path: Path) -> None:
    """In a process of its own, which prints one line and no warning of torch."""
    path = tmp_path / "model.onnx"
    command = [sys.executable, "-m", "csprop", "export", str(locked["finite"].path), str(path)]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    shown: dict[str, Any] = json.loads(done.stdout)
    assert shown == {"run": str(locked["finite"].path), "file": str(path), "locked": True}
    assert done.stderr.count("\n") == 1
    assert "the locked model answers" in done.stderr
    session = runtime.InferenceSession(path)
    tokens, begin = np.array([[0, 1, 1, 0, 1]]), np.zeros(0, np.int64)
    scores, _ = session.run(None, {"tokens": tokens, "state": begin})
    assert scores.argmax(axis=2).tolist() == [[0, 1, 0, 0, 1]]
