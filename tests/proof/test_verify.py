"""The verifier accepts what is right, rejects what was tampered with, and does not need the prover."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
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
from tests.helpers import forgery, machines
from tests.helpers.forgery import PARITY, Way, at, put
from tests.helpers.options import config, configs, draw_parts
from tests.helpers.zoo import unpack

Tamper = Callable[[dict[str, Any]], Any]
COUNT = (4, ((False, 1), (True, 0)), (0, 1, 2, 3))


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


def turned(document: dict[str, Any]) -> None:
    """Another transition from the first state."""
    row = document["machine"]["transitions"][0]
    row[0] = row[0] % (len(document["machine"]["places"]) - 1) + 1


def renamed(document: dict[str, Any]) -> None:
    """Another output in the state that the first token leads to."""
    machine = document["machine"]
    state = machine["transitions"][0][0]
    machine["outputs"][state] = (machine["outputs"][state] + 1) % 2


GONE = object()
"""In place of a value: the field is deleted."""
TAMPERINGS: dict[str, dict[Way, Sequence[Any]]] = {
    "does not begin at the start": {("pairs",): [[]]},
    "does not begin|a state of the task twice": {("task_states", 0): ["3"]},
    "does not begin where": {("machine", "places", 0): [[1]]},
    "it claims no proof": {("proven",): [False]},
    "a wrong type": {
        ("proven",): ["yes"], ("machine", "transitions", 0, 0): [1.0], ("margin",): [10**400],
        ("minimal_states",): [4.0],
    },
    "its verdict is not": {("verdict",): ["proven up to depth 9"]},
    "statement is not what": {("statement",): ["It tells the future."]},
    "has one although it does not": {("depth",): [3]},
    "it is about another task": {("task", "name"): ["parity"]},
    "leaves out a state of the task": {("task_states", 2): ["7"], ("task_states", -1): [GONE]},
    "a state of the task twice": {("task_states", 2): ["1"]},
    "do not fit together": {
        ("machine", "transitions", 0, 0): [10**30, -3], ("machine", "places", 1, 0): [-1],
        ("machine",): [{"places": [], "transitions": [], "outputs": []}],
        ("machine", "outputs", -1): [GONE], ("machine", "transitions", 1, -1): [GONE],
        ("machine", "places", -1): [GONE],
    },
    "leads elsewhere|malformed": {("machine", "places", 1, 0): [10**30]},
    "malformed": {
        ("pairs", 0): [[0, 0, 0], [[], 0]], ("machine",): [None, GONE], ("search",): [{}],
        ("format",): [2.0],
    },
    "malformed .*depth": {("depth",): [GONE]},
    "is not in the invariant": {("pairs", -1): [GONE]},
    "another file": {("weights",): [GONE], ("weights", "file"): ["../elsewhere"]},
    "SHA-256": {("weights", "sha256"): ["0" * 64]},
    "does not name its model": {("model",): [GONE]},
    "describes another model": {("model", "width"): [3]},
    "is not a field of a certificate": {("more",): [1]},
    "other margins": {
        ("margin",): [9.9], ("layers",): [[]], ("layers", 0, "gap"): [9.9],
        ("layers", 0, "gate"): [None],
    },
    "its assumptions": {("trusted",): [["nothing at all"], GONE]},
    "number of channels": {("search", "channels"): [[1]]},
    "minimal_states": {("minimal_states",): [3]},
    "other names": {("automaton", "vocab"): [["b", "a"]]},
}  # fmt: skip
"""What the verifier complains of if something else is in a place of the certificate."""


@pytest.mark.parametrize("complaint", TAMPERINGS)
def test_a_changed_certificate_is_rejected(counted: Folder, complaint: str) -> None:
    genuine = json.dumps(counted.document)
    for way, values in TAMPERINGS[complaint].items():
        for value in values:
            document = json.loads(genuine)
            if value is GONE:
                del at(document, way[:-1])[way[-1]]
            else:
                put(document, way, value)
            counted.write(document)
            assert re.search(complaint, counted.complaint()), (way, value)


def swap(document: dict[str, Any]) -> None:
    places = document["machine"]["places"]
    places[1], places[2] = places[2], places[1]


def split(document: dict[str, Any]) -> None:
    """A state of the automaton twice: right on every input, and not the smallest."""
    rows, answers = document["automaton"]["transitions"], document["automaton"]["answers"]
    entries = [(row, token) for row in rows for token in range(len(row))]
    row, token = next(each for each in entries if sum(r[t] == each[0][each[1]] for r, t in entries) > 1)
    state = row[token]  # other entries still lead to it
    rows.append(list(rows[state]))
    answers.append(answers[state])
    row[token] = len(rows) - 1
    document["minimal_states"] = len(rows)


def enlarge(document: dict[str, Any]) -> None:
    """Another state of the automaton, which no input reaches."""
    document["automaton"]["transitions"].append([0, 0])
    document["automaton"]["answers"].append(0)
    document["minimal_states"] = 5


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (turned, "automaton answers otherwise|is not in the invariant|no input reaches"),
        (renamed, "its automaton answers otherwise|a state twice"),
        (lambda document: document["pairs"].append(document["pairs"][0]), "that no input reaches"),
        (swap, "leads elsewhere"),
        (enlarge, "not the smallest"),
        (split, "not the smallest"),
    ],
)
def test_another_machine_is_rejected(counted: Folder, change: Tamper, complaint: str) -> None:
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
    put(document, keys, at(document, keys) + more)
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
    said = noisy.document["statement"]
    fitting = said.replace("30 of 32 rows", "31 of 32 rows").replace("other 2 are", "other 1 is")
    forged: list[dict[str, Any]] = [
        {"disagreeing": [8], "verdict": "agrees with 31 of 32 rows", "statement": fitting},
        {"disagreeing": [True, 32]}, {"disagreeing": [-1, 32]}, {"disagreeing": ["8", "32"]},
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
    path = forgery.compiled(tmp_path / "run", PARITY, "parity", length=3)
    run = csprop.load(path)
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
    draw_parts(model, draws)
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
