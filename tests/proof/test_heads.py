"""The machine of a network of trackers: it answers as the network does, or it is refused."""

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, nn

import csprop
from csprop import CSP, CSPConfig, Tracker
from csprop.automata.counting import CounterMachine
from csprop.cells.tracker import SparseHeads
from csprop.errors import InputError
from csprop.proof.certificate import Counterexample
from csprop.proof.certify import _check_wrong
from csprop.proof.heads import has_heads_alone, read_machine
from csprop.proof.limits import NotFinite
from csprop.training.labelled import Labelled
from csprop.training.pruned import all_heads, drop_heads
from tests.report.conftest import write_page

TURNS, ROUTES, COUNTS, SHIFT = range(20), range(20, 28), range(28, 76), range(76, 92)


def network(*kept: Sequence[int], seed: int = 0, depth: int = 2) -> CSP:
    """A random network that follows only these heads of each layer."""
    config = CSPConfig(
        vocab_size=3, num_classes=4, width=16, depth=depth, cell=Tracker(), decoder="linear"
    )
    model = CSP(config, Generator().manual_seed(seed)).eval()
    for layer, heads in zip(all_heads(model), kept, strict=True):
        with torch.no_grad():
            layer.readout.weight.normal_(generator=Generator().manual_seed(seed))
        layer.keep(
            torch.zeros(len(layer.kept)).bool().index_fill(0, torch.tensor(list(heads)).long(), True)
        )
        layer.hard.fill_(1)
    return model


def answers(model: CSP, rows: list[list[int]]) -> np.ndarray:
    with torch.no_grad():
        return model(torch.tensor(rows)).argmax(dim=2).numpy()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("below", "above"),
    [
        (ROUTES[:2], ROUTES[:1]),
        (COUNTS[:2], ROUTES[:2]),
        ([*ROUTES[:1], *COUNTS[3:4]], []),
        ([*SHIFT, *ROUTES[:1]], ROUTES[:1]),
        ([*COUNTS[5:6], *SHIFT], SHIFT),
    ],
)
def test_the_machine_answers_as_the_network(
    below: Sequence[int], above: Sequence[int], seed: int
) -> None:
    """On every sequence of six tokens, and on long ones, whose counts leave the window."""
    model = network(below, above, seed=seed)
    machine = read_machine(model, 3)
    rows = [list(row) for row in product(range(3), repeat=6)]
    assert np.array_equal(machine.run(rows), answers(model, rows))
    drawn = torch.randint(3, (20, 300), generator=Generator().manual_seed(seed))
    drawn[:10] = drawn[:10, :1]  # one token, again and again
    assert np.array_equal(machine.run(drawn.numpy()), answers(model, drawn.tolist()))
    if not any(head in COUNTS for head in below):
        assert not isinstance(machine, CounterMachine)


@pytest.mark.parametrize(
    ("below", "above"), [(TURNS[:1], []), (ROUTES[:1], COUNTS[:4]), (COUNTS[:20], [])]
)
def test_what_is_not_finite_is_refused(below: Sequence[int], above: Sequence[int]) -> None:
    """A rotation without a group, counters above the first layer, and too many counters."""
    with pytest.raises(NotFinite, match=r"too many states|different counters|no finite group"):
        read_machine(network(below, above), 3)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> csprop.Run:
    out = tmp_path_factory.mktemp("tracker") / "run"
    small: dict[str, Any] = {"samples": 800, "length": 16, "epochs": 6}
    return csprop.train("parity", preset="tracker", out=out, progress=False, **small)


def test_a_run_of_the_preset_is_proven(run: csprop.Run) -> None:
    assert run.path is not None
    assert run.verdict == "proven for all lengths, 2 states"
    again = csprop.load(run.path)
    assert again.proven
    assert again.predict(["0110", "111"]) == again.predict(["0110", "111"], as_trained=True)
    assert again.predict(["1" * 9001]) == ["odd"]


@pytest.mark.parametrize("beside", ["a rotor", "a tracker"])
def test_a_certificate_of_another_model_holds_only_beside_trackers(
    run: csprop.Run, beside: str, tmp_path: Path
) -> None:
    """A rotor must be the certified model itself, and no certificate is about trackers."""
    assert run.path is not None
    copy = tmp_path / "run"
    few: dict[str, Any] = {"samples": 100, "epochs": 1, "as_trained": True, "progress": False}
    if beside == "a rotor":
        csprop.train("parity", preset="rotor", out=copy, **few)
    else:
        shutil.copytree(run.path, copy)
        assert csprop.load(copy).proven
    document = json.loads((run.path / "certificate.json").read_text())
    if beside == "a tracker":
        document["model"]["cells"] = [{"kind": "tracker"}]
    (copy / "certificate.json").write_text(json.dumps(document))
    (copy / "locked.safetensors").write_bytes((run.path / "locked.safetensors").read_bytes())
    manifest = json.loads((copy / "manifest.json").read_text())
    for name in ("certificate.json", "locked.safetensors"):
        manifest[name] = hashlib.sha256((copy / name).read_bytes()).hexdigest()
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="does not hold"):
        assert csprop.load(copy).certificate


def test_a_page_runs_the_locked_model_and_says_why_not_the_tracker(
    run: csprop.Run, tmp_path: Path
) -> None:
    assert run.path is not None
    locked = write_page(tmp_path / "locked.html", run.path, times=(1,)).read_text()
    assert '"kind": "router"' in locked or '"kind":"router"' in locked
    bare = shutil.copytree(run.path, tmp_path / "bare")
    csprop.load(bare)
    for name in ("certificate.json", "locked.safetensors"):
        (bare / name).unlink()
    manifest = json.loads((bare / "manifest.json").read_text())
    kept = {name: value for name, value in manifest.items() if (bare / name).exists()}
    (bare / "manifest.json").write_text(json.dumps(kept))
    page = write_page(tmp_path / "bare.html", bare, times=(1,)).read_text()
    assert "only Python can run its cell, Tracker" in page
    with pytest.raises(InputError, match="trackers cannot be exported"):
        run.to_onnx(tmp_path / "x.onnx", as_trained=True)


def test_a_network_is_not_blamed_for_what_its_machine_gets_wrong(run: csprop.Run) -> None:
    """Places that are not whole are made whole to be read; the network itself may be right there."""
    example = Counterexample(sequence="0110", length=4, said="odd", right="even")
    with pytest.raises(NotFinite, match="made whole they err after 0110"):
        _check_wrong(run.model, run.task, example)
    _check_wrong(run.model, run.task, replace(example, said="even", right="odd"))  # it errs, too


class Alone(nn.Module):
    """A tracker, and beside it one bit of state that is no head."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = SparseHeads(4, Generator().manual_seed(0))

    def initial_state(self, batch: int = 1) -> torch.Tensor:
        return torch.zeros(batch, 2, 1, 4)


def test_a_network_with_another_state_is_not_read_off_its_heads() -> None:
    assert not has_heads_alone(Alone())
    assert has_heads_alone(network([0], [0]))
    assert not has_heads_alone(torch.nn.Linear(2, 2))


@torch.no_grad()
def test_heads_are_left_out_while_the_answers_stay(run: csprop.Run) -> None:
    """Training has left out all heads that its labels do not need: another turn finds no more."""
    assert run.training is not None
    layers = all_heads(run.model)
    used = [int(layer.followed.used.sum()) for layer in layers]
    assert 1 <= sum(used) <= 6
    rows = Labelled.of(run.training)
    before = rows.judge(run.model(rows.tokens)).misses
    drop_heads(run.model, rows)
    assert [int(layer.followed.used.sum()) for layer in layers] == used
    assert rows.judge(run.model(rows.tokens)).misses == before == 0
    only: SparseHeads = next(layer for layer in layers if layer.followed.used.any())
    with only.leave_out(only.followed.used):
        assert rows.judge(run.model(rows.tokens)).misses > 100
    assert rows.judge(run.model(rows.tokens)).misses == 0
