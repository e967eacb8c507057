"""The verifier accepts what is right, rejects what was tampered with, and does not need the prover."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

import csprop
from csprop import CSP, Cell, CSPConfig, Paper, Rotor
from csprop.automata import comparison, walk
from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.cells.options import Counter
from csprop.errors import InputError
from csprop.proof import prove, store
from csprop.proof.certificate import Certificate
from csprop.proof.certify import certify
from csprop.proof.verify import Rejected, verify
from csprop.proof.verify_network import Network, complete, network_shapes
from csprop.tasks import from_file
from csprop.training.checkpoint import RunFolder
from tests.helpers import machines
from tests.helpers.options import config, configs
from tests.helpers.zoo import unpack

Tamper = Callable[[dict[str, Any]], Any]
COUNT = (4, ((False, 1), (True, 0)), (0, 1, 2, 3))
PARITY = machines.Counter(2, ((False, 0), (False, 1)), (0, 1), 2)


class Folder:
    """A certificate on disk, to be read, changed and verified."""

    def __init__(self, path: Path, model: dict[str, Any], task: Any) -> None:
        self.path, self.model, self.task = path, model, task

    @classmethod
    def made(cls, path: Path, certificate: Certificate, task: Any) -> "Folder":
        assert certificate.proven, certificate.statement
        store.save(certificate, path)
        return cls(path, certificate.locked.network.config.to_json(), task)

    def copy(self, path: Path) -> "Folder":
        return Folder(shutil.copytree(self.path, path / "copy"), self.model, self.task)

    def check(self) -> str:
        certificate = verify(lambda name: (self.path / name).read_bytes(), self.model, self.task)
        assert certificate.proven
        return certificate.statement

    def complaint(self) -> str:
        with pytest.raises(Rejected) as rejected:
            self.check()
        assert "\n" not in str(rejected.value)
        return str(rejected.value)

    @property
    def document(self) -> dict[str, Any]:
        return json.loads((self.path / "certificate.json").read_text())

    def write(self, document: dict[str, Any]) -> None:
        (self.path / "certificate.json").write_text(json.dumps(document))

    def reweigh(self, change: Callable[[dict[str, Any]], Any]) -> None:
        """Other weights, and the SHA-256 that fits them."""
        tensors = {name: value.copy() for name, value in load(self.weights.read_bytes()).items()}
        change(tensors)
        self.weights.write_bytes(save(tensors))
        digest = hashlib.sha256(self.weights.read_bytes()).hexdigest()
        self.write(self.document | {"weights": {"file": self.weights.name, "sha256": digest}})

    @property
    def weights(self) -> Path:
        return self.path / "locked.safetensors"


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A counter modulo 4 with a reset, certified."""
    counter = machines.Counter(*COUNT)
    task, model = machines.Counting(counter), machines.compiled(counter, noise=0.001)
    found = certify(model, task, machines.few(task), rounds=0)
    return Folder.made(tmp_path_factory.mktemp("counted"), found, task)


@pytest.fixture
def counted(genuine: Folder, tmp_path: Path) -> Folder:
    return genuine.copy(tmp_path)


class Climbing(machines.Counting):
    """A task of infinitely many states: how many `a` since the last `b`."""

    name, finite = "climbing", False

    def step(self, state: int, token: int) -> int:
        return state + 1 if token == 0 else 0

    def answer(self, state: int) -> int:
        return int(state == 0)

    def size(self, state: int) -> int:
        return state

    def classify(self, tokens: Any) -> Any:
        return (tokens == 1).astype(np.int64)


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    counter = machines.Counter(5, ((False, 1), (True, 0)), (1, 0, 0, 0, 0), 2)
    task = Climbing(counter)
    found = certify(machines.compiled(counter), task, depth=3, rounds=0)
    assert found.verdict == "proven up to depth 3", found.statement
    return Folder.made(tmp_path_factory.mktemp("deep"), found, task)


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A certificate of a file, of which two rows are wrong."""
    path = tmp_path_factory.mktemp("file")
    labels = {f"{number:05b}": f"{number:05b}".count("1") % 2 for number in range(32)}
    labels |= {"00111": 0, "11111": 0}
    lines = (f"{each},{('even', 'odd')[odd]}\n" for each, odd in labels.items())
    (path / "own.csv").write_text("".join(lines))
    task = from_file(path / "own.csv")
    return Folder.made(path / "run", certify(machines.compiled(PARITY), task), task)


def of_zoo(name: str, path: Path) -> Folder:
    run = csprop.load(f"zoo:{name}")
    return Folder(unpack(name, path), run.config.model.to_json(), run.task)


# Certificates that hold.


def test_a_good_certificate_holds(genuine: Folder, deep: Folder, noisy: Folder) -> None:
    assert genuine.check() == (
        "For every sequence of one or more tokens a, b, of any length, the locked model's answer after "
        "each token is that of the task 'counting' (a count)."
    )
    assert "in which no prefix goes deeper than 3" in deep.check()
    assert "agree with 30 of 32 rows of own.csv" in noisy.check()


def test_a_certificate_is_typed_and_written_as_it_was_read(genuine: Folder, noisy: Folder) -> None:
    for folder in (genuine, noisy):
        assert (
            json.loads(json.dumps(Certificate.from_json(folder.document).to_json())) == folder.document
        )
    found = Certificate.from_json(noisy.document)
    assert (found.rows, found.disagreeing, found.minimal_states) == (32, (8, 32), 2)


# The prover.


def break_prover(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whatever the prover explores, minimises and compares with be wrong, or accept everything."""
    one = Machine(transitions=((0, 0, 0, 0, 0),), outputs=(0,))
    for owner, name, value in (
        (Machine, "explore", lambda *given, **named: one),
        (Machine, "minimal", lambda self: one),
        (Machine, "difference", lambda self, other: None),
        (CounterMachine, "reduce", lambda self: self),
        (walk, "compare", lambda *given, **named: walk.Agreement([(0, 0)])),
        (walk.Walk, "run", lambda self, *given, **named: self),
        (prove, "compare_with_task", lambda *given: []),
        (comparison, "compare_counting", lambda *given: None),
    ):
        monkeypatch.setattr(owner, name, value)


@pytest.mark.parametrize("name", ["parity", "tomita-3", "mod3-reset", "parenthesis"])
def test_a_wrong_prover_changes_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = of_zoo(name, tmp_path)
    assert (folder.task.counting is None) == (name != "parenthesis")  # a declaration, made once
    break_prover(monkeypatch)
    assert f"the task {name!r}" in folder.check()
    document = folder.document
    forgeries: list[Tamper] = [
        lambda d: d["automaton"]["answers"].reverse(), lambda d: d["pairs"].pop(),
        lambda d: d.update(statement="It is right."),
    ]  # fmt: skip
    if name == "parenthesis":
        forgeries += [lambda d: d["task_pairs"].pop(), lambda d: d["counting"]["decisions"].pop()]
    else:
        forgeries += [turned, renamed, lambda d: d["task_states"].reverse()]
    for change in forgeries:
        forged = json.loads(json.dumps(document))
        change(forged)
        folder.write(forged)
        assert folder.complaint()
    folder.write(document)
    flip = "network.decoder.linear.weight", "network.decoder.linear.bias"
    folder.reweigh(lambda tensors: tensors.update({each: tensors[each][::-1].copy() for each in flip}))
    assert folder.complaint()


def test_it_imports_neither_torch_nor_the_prover() -> None:
    code = "import sys, csprop.proof.verify; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(ran.stdout.split())
    assert not {"torch", "csprop.nn.model", "csprop.cells.block"} & modules
    own = {f"verify{part}" for part in ("", "_counting", "_finite", "_network")}
    parts = {each for each in modules if each.startswith("csprop.proof.")}
    assert parts == {f"csprop.proof.{each}" for each in ("certificate", "statements", *own)}
    for each in own:  # and of machines it takes the tables alone
        text = (Path(str(prove.__file__)).parent / f"{each}.py").read_text()
        assert not re.search(
            r"automata\.(walk|machine|comparison|minimal|reduction)|\.(machine|oracle)\(", text
        )
        assert not re.search(r"task\.machine|\.(minimal|reduce|explore|difference)\(", text)


# Changed certificates.


def put(*keys: Any, value: Any) -> Tamper:
    """Another value at the end of a path of keys."""

    def change(document: dict[str, Any]) -> None:
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return change


def turned(document: dict[str, Any]) -> None:
    """Another transition from the first state."""
    row = document["machine"]["transitions"][0]
    row[0] = row[0] % (len(document["machine"]["places"]) - 1) + 1


def renamed(document: dict[str, Any]) -> None:
    """Another output in the state that the first token leads to."""
    machine = document["machine"]
    state = machine["transitions"][0][0]
    machine["outputs"][state] = (machine["outputs"][state] + 1) % 2


def swap(document: dict[str, Any]) -> None:
    places = document["machine"]["places"]
    places[1], places[2] = places[2], places[1]


TAMPERINGS: dict[str, tuple[Tamper, str]] = {
    "a transition": (turned, "automaton answers otherwise|is not in the invariant|no input reaches"),
    "an answer": (renamed, "its automaton answers otherwise|a state twice"),
    "a pair removed": (lambda d: d["pairs"].pop(), "is not in the invariant"),
    "a pair twice": (lambda d: d["pairs"].append(d["pairs"][0]), "that no input reaches"),
    "no pairs": (put("pairs", value=[]), "does not begin at the start"),
    "another start": (put("task_states", 0, value="3"), "does not begin|a state of the task twice"),
    "another first place": (put("machine", "places", 0, value=[1]), "does not begin where"),
    "no proof": (put("proven", value=False), "it claims no proof"),
    "nearly a proof": (put("proven", value="yes"), "proven has a wrong type"),
    "another verdict": (put("verdict", value="proven up to depth 9"), "its verdict is not"),
    "another statement": (put("statement", value="It tells the future."), "statement is not what"),
    "a depth": (put("depth", value=3), "has one although it does not"),
    "another task": (put("task", "name", value="parity"), "it is about another task"),
    "a task state": (put("task_states", 2, value="7"), "leaves out a state of the task"),
    "a task state twice": (put("task_states", 2, value="1"), "a state of the task twice"),
    "places swapped": (swap, "leads elsewhere"),
    "a huge state": (put("machine", "transitions", 0, 0, value=10**30), "do not fit together"),
    "a negative state": (put("machine", "transitions", 0, 0, value=-3), "do not fit together"),
    "no whole number": (put("machine", "transitions", 0, 0, value=1.0), "a wrong type"),
    "a huge code": (put("machine", "places", 1, 0, value=10**30), "leads elsewhere|malformed"),
    "a negative code": (put("machine", "places", 1, 0, value=-1), "do not fit together"),
    "no states": (put("machine", value={"places": [], "transitions": [], "outputs": []}), "do not fit"),
    "a table cut": (lambda d: d["machine"]["outputs"].pop(), "do not fit together"),
    "a row cut": (lambda d: d["machine"]["transitions"][1].pop(), "do not fit together"),
    "pairs of three": (put("pairs", 0, value=[0, 0, 0]), "malformed"),
    "pairs of lists": (put("pairs", 0, value=[[], 0]), "malformed"),
    "no machine": (lambda d: d.pop("machine"), "malformed"),
    "no weights": (lambda d: d.pop("weights"), "another file"),
    "no model": (lambda d: d.pop("model"), "does not name its model"),
    "another model": (put("model", "width", value=3), "describes another model"),
    "no depth": (lambda d: d.pop("depth"), "malformed .*depth"),
    "a field": (put("more", value=1), "is not a field of a certificate"),
    "a machine that is none": (put("machine", value=None), "malformed"),
    "another file": (put("weights", "file", value="../elsewhere"), "about another file"),
    "another digest": (put("weights", "sha256", value="0" * 64), "SHA-256"),
    "a larger margin": (put("margin", value=9.9), "other margins"),
    "a huge margin": (put("margin", value=10**400), "a wrong type"),
    "no search": (put("search", value={}), "malformed"),
    "no layers": (put("layers", value=[]), "other margins"),
    "another format": (put("format", value=2.0), "malformed"),
    "a fractional count of states": (put("minimal_states", value=4.0), "a wrong type"),
    "other assumptions": (put("trusted", value=["nothing at all"]), "its assumptions"),
    "no assumptions": (lambda d: d.pop("trusted"), "its assumptions"),
    "a larger gap": (put("layers", 0, "gap", value=9.9), "other margins"),
    "no gate": (put("layers", 0, "gate", value=None), "other margins"),
    "other channels": (put("search", "channels", value=[1]), "number of channels"),
    "a larger automaton": (
        lambda d: (d["automaton"]["transitions"].append([0, 0]), d["automaton"]["answers"].append(0),
                   d.update(minimal_states=5)), "not the smallest"),
    "a count of states": (put("minimal_states", value=3), "minimal_states"),
    "other names": (put("automaton", "vocab", value=["b", "a"]), "other names"),
}  # fmt: skip


@pytest.mark.parametrize("kind", TAMPERINGS)
def test_a_changed_certificate_is_rejected(counted: Folder, kind: str) -> None:
    change, complaint = TAMPERINGS[kind]
    document = counted.document
    change(document)
    counted.write(document)
    assert re.search(complaint, counted.complaint())


@pytest.mark.parametrize(
    ("name", "keys", "more"),
    [
        ("parenthesis", ("gate",), 0.002), ("parenthesis", ("margin",), 0.01),
        ("group-S3", ("margin",), 0.0005), ("flip-flop-language", ("layers", 0, "gate"), 0.0005),
    ],
)  # fmt: skip
def test_margins_that_are_a_little_larger_are_rejected(
    name: str, keys: tuple[Any, ...], more: float, tmp_path: Path
) -> None:
    """A thousandth of a small margin matters, too."""
    folder = of_zoo(name, tmp_path)
    assert folder.check()
    document = folder.document
    stated: Any = reduce(getitem, keys, document)
    put(*keys, value=stated + more)(document)
    folder.write(document)
    assert "other margins" in folder.complaint()


FAILURE = {"proven": False, "verdict": "not finite", "statement": "Nothing is proven: it is not."}


def test_a_failure_claims_nothing(counted: Folder) -> None:
    bare = {name: counted.document[name] for name in ("format", "task")} | FAILURE
    counted.write(bare)
    with pytest.raises(AssertionError):
        counted.check()  # it holds, and proves nothing
    example = {"sequence": "a", "length": 1, "said": "0", "right": "1"}
    for change in (
        {"proven": True}, {"verdict": "proven for all lengths"}, {"statement": "It is right."},
        {"rows": 9}, {"disagreeing": [1]}, {"trusted": ["me"]}, {"counterexample": example},
        {"verdict": "counterexample"}, {"weights": counted.document.get("weights", {})},
    ):  # fmt: skip
        counted.write(bare | change)
        assert re.search("claims a proof and has none|malformed", counted.complaint())


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"proven": true}']
)
def test_what_is_no_certificate_is_rejected(counted: Folder, content: bytes) -> None:
    (counted.path / "certificate.json").write_bytes(content)
    assert "malformed" in counted.complaint()


def test_another_depth_is_rejected(deep: Folder, tmp_path: Path) -> None:
    folder = deep.copy(tmp_path)
    for depth in (None, -1, 2.5, "3", True, float("nan"), 4, 2):
        folder.write(deep.document | {"depth": depth})
        assert re.search(r"depth|leaves out a state|no input reaches", folder.complaint())


def test_the_rows_that_disagree_are_counted_again(noisy: Folder, tmp_path: Path) -> None:
    folder = noisy.copy(tmp_path)
    forged: list[dict[str, Any]] = [
        {"disagreeing": [8]}, {"disagreeing": [8, 31]}, {"disagreeing": [7, 31]}, {"rows": 33},
        {"disagreeing": [8, 32, 32]}, {"disagreeing": [32, 8]}, {"disagreeing": None}, {"rows": 32.0},
        {"disagreeing": [], "verdict": "agrees with every row"}, {"disagreeing": [8.0, 32]},
        {"verdict": "agrees with 31 of 32 rows"}, {"verdict": "agrees with every row"},
    ]  # fmt: skip
    for change in forged:
        folder.write(noisy.document | change)
        assert re.search(
            "rows that disagree are others|its verdict is not|wrong type", folder.complaint()
        )


# Changed weights.


def test_other_bytes_of_the_weights(counted: Folder) -> None:
    content = counted.weights.read_bytes()
    counted.weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert "SHA-256" in counted.complaint()
    counted.weights.write_bytes(b"nothing")
    digest = hashlib.sha256(b"nothing").hexdigest()
    counted.write(counted.document | {"weights": {"file": counted.weights.name, "sha256": digest}})
    assert "malformed" in counted.complaint()
    counted.weights.unlink()
    assert "malformed (FileNotFoundError" in counted.complaint()


def scaled(name: str, place: Any, factor: float) -> Callable[[dict[str, Any]], None]:
    def change(tensors: dict[str, Any]) -> None:
        tensors[name][place] *= factor

    return change


REWEIGHED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "an angle": scaled("network.blocks.0.angle.weight", (0, 2), 2.0),
    "a gate": scaled("network.blocks.0.gate.weight", (0, 3), -1.0),
    "the decoder": scaled("network.decoder.linear.weight", 0, -1.0),
    "the embedding": scaled("network.embedding", 1, -1.0),
    "the start": scaled("network.blocks.0.h0", slice(None), -1.0),
    "a code": scaled("codes_0", 1, -1.0),
    "a code that is NaN": scaled("codes_0", 1, float("nan")),
    "a weight that is infinite": scaled("network.embedding", 0, float("inf")),
    "a channel that is dropped": scaled("kept", (0, 0), 0),
    "codes that are missing": lambda tensors: tensors.pop("codes_0"),
    "codes of another width": lambda tensors: tensors.update(codes_0=tensors["codes_0"][:, :, :1]),
    "weights in half precision": lambda tensors: tensors.update(
        {"network.embedding": tensors["network.embedding"].astype(np.float16)}
    ),
}


def test_a_weight_that_matters_is_noticed_under_a_right_digest(counted: Folder) -> None:
    counted.reweigh(lambda tensors: None)
    assert "counting" in counted.check()
    content, document = counted.weights.read_bytes(), counted.document
    for kind, change in REWEIGHED.items():
        counted.weights.write_bytes(content)
        counted.write(document)
        counted.reweigh(change)
        assert "SHA" not in counted.complaint(), kind


def test_a_certificate_of_one_length_is_no_proof_of_all(tmp_path: Path) -> None:
    path = unpack("parity", tmp_path)
    (path / "locked.safetensors").unlink()
    (path / "certificate.json").unlink()
    run = csprop.load(path)
    run.certify(length=3)
    folder = Folder(path, run.config.model.to_json(), run.task)
    assert "it covers one length by trial" in folder.complaint()
    certificate = csprop.load(path).certificate
    assert certificate is not None
    assert certificate.proven
    document = folder.document
    for change in ({"wrong": 1}, {"length": 4}, {"inputs": 9}, {"verdict": "proven for all lengths"}):
        RunFolder(path).write_json("certificate.json", document | change)
        with pytest.raises(InputError, match="does not hold"):
            _ = csprop.load(path).certificate


# The step in NumPy is that of the model.


def assert_transcribed(config: CSPConfig, seed: int) -> None:
    draws = torch.Generator().manual_seed(seed)
    model = CSP(config, draws).double().requires_grad_(False)
    for parameter in model.parameters():
        parameter.add_(0.5 * torch.randn(parameter.shape, generator=draws, dtype=torch.float64))
    shape = (config.depth, config.order, config.width)
    state = torch.randn(shape, generator=draws, dtype=torch.float64)
    for layer, cell in enumerate(config.layers):
        if isinstance(cell, Counter):
            state[layer] = state[layer].round()
    after, scores = model.step(state[None].repeat(3, 1, 1, 1), torch.arange(3))
    for token in range(3):
        # Codes: where the state is, and where a step leads, so snapping changes nothing.
        codes = torch.stack([state, after[token]], dim=1)  # (L, 2, M, D)
        tensors = {f"network.{name}": value.numpy() for name, value in model.state_dict().items()}
        tensors |= {f"codes_{layer}": each.numpy() for layer, each in enumerate(codes)}
        tensors["kept"] = np.ones((config.depth, config.width))
        network = Network(tensors, complete(config.to_json()))
        move = network.move([0] * config.depth, token)
        for each, number, want in zip(codes, move.place, after[token], strict=True):
            np.testing.assert_allclose(each[number].numpy(), want.numpy(), rtol=1e-9, atol=1e-9)
        scale = max(1.0, float(after[token].abs().max()))
        assert max(move.snaps) <= 1e-9 * scale
        np.testing.assert_allclose(move.scores, scores[token].numpy(), rtol=1e-9, atol=1e-9 * scale)
        starts = np.stack(network.start)
        np.testing.assert_allclose(starts, model.initial_state()[0].numpy(), rtol=1e-12, atol=1e-12)


@settings(max_examples=60)
@given(config=configs(), seed=st.integers(0, 2**31))
def test_its_network_and_its_shapes_are_the_model_s(config: CSPConfig, seed: int) -> None:
    shapes = {name: tuple(each.shape) for name, each in CSP(config).state_dict().items()}
    assert network_shapes(complete(config.to_json())) == shapes
    try:
        assert_transcribed(config, seed)
    except Rejected:  # a random gate may lie next to 0, or random weights be too large for float32
        reject()


@pytest.mark.parametrize(
    ("cell", "name", "place", "near", "complaint"),
    [
        (Rotor(), "blocks.0.gate.bias", 0, 1e-4, "rounding could turn a gate"),
        (Rotor(), "blocks.0.gate.bias", 0, -1e-4, "rounding could turn a gate"),
        (Counter(), "embedding", (0, 0, 0), 0.4995, "rounding could turn a count"),
        (Counter(), "embedding", (0, 0, 0), -2.5, "rounding could turn a count"),
    ],
)
def test_a_decision_near_a_tie_is_rejected(
    cell: Cell, name: str, place: Any, near: float, complaint: str
) -> None:
    """A channel that is not kept decides nothing."""
    model = CSP(config(cell, depth=1)).double().requires_grad_(False)
    for parameter in model.parameters():
        parameter.fill_(0.1)
    if name != "embedding":
        model.layers[0].gate.weight.zero_()  # pyright: ignore
    model.get_parameter(name)[place] = near
    tensors = {f"network.{each}": value.numpy() for each, value in model.state_dict().items()}
    tensors |= {"codes_0": model.initial_state()[0].numpy(), "kept": np.ones((1, 6))}
    with pytest.raises(Rejected, match=complaint):
        Network(tensors, complete(model.config.to_json())).move([0], 0)
    tensors["kept"][0, 0] = 0
    Network(tensors, complete(model.config.to_json())).move([0], 0)


def test_options_that_are_missing_have_defaults() -> None:
    sizes = {"vocab_size": 2, "num_classes": 2, "width": 4, "depth": 2, "decoder": "linear"}
    assert complete(sizes | {"cells": [{"kind": "paper"}, {"kind": "rotor"}]}) == sizes | {
        "cells": [Paper().to_json(), Rotor().to_json()]
    }
