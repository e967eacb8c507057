"""The second pair of eyes accepts what is right and rejects whatever was tampered with."""

import ast
import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
import torch
from csprop.proof.check_shapes import Rejected
from csprop.proof.numpy_step import Network
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

import csprop
from csprop import CSP, CSPConfig, tasks
from csprop.nn.config import FIRST_OPTIONS, ModelOptions
from csprop.proof import check as checker
from csprop.proof import check_counting, check_network, check_shapes, numpy_step, store
from csprop.proof.certify import certify
from csprop.proof.check import check
from csprop.training.checkpoint import RunFolder
from tests.helpers import machines
from tests.helpers.options import going_together

Tamper = Callable[[dict[str, Any]], Any]
COUNT = (4, ((False, 1), (True, 0)), (0, 1, 2, 3))


class Folder:
    """A certificate on disk, to be read, changed and checked."""

    def __init__(self, path: Path, config: Any, task: Any) -> None:
        self.path, self.config, self.task = path, asdict(config), task

    def check(self) -> str:
        return check(self.path, self.config, self.task)

    @property
    def document(self) -> dict[str, Any]:
        return json.loads((self.path / "certificate.json").read_text())

    def write(self, document: dict[str, Any]) -> None:
        (self.path / "certificate.json").write_text(json.dumps(document))

    def reweigh(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Other weights, and the SHA-256 that fits them."""
        tensors = {name: value.copy() for name, value in load(self.weights.read_bytes()).items()}
        change(tensors)
        self.weights.write_bytes(save(tensors))
        digest = hashlib.sha256(self.weights.read_bytes()).hexdigest()
        self.write(self.document | {"weights": {"file": self.weights.name, "sha256": digest}})

    @property
    def weights(self) -> Path:
        return self.path / "locked.safetensors"


@pytest.fixture
def counted(tmp_path: Path) -> Folder:
    """A counter modulo 4 with a reset, certified."""
    counter = machines.Counter(*COUNT)
    task, model = machines.Counting(counter), machines.compiled(counter, noise=0.001)
    certificate = certify(model, task, machines.few(task), rounds=0)
    assert certificate.proven, certificate.statement
    store.save(certificate, tmp_path)
    return Folder(tmp_path, model.config, task)


@pytest.fixture
def climbing(tmp_path: Path) -> Folder:
    """A task of infinitely many states, certified up to depth 3: how many `a` since the last `b`."""

    class Climbing(machines.Counting):
        name, finite = "climbing", False

        def step(self, state: int, token: int) -> int:
            return state + 1 if token == 0 else 0

        def answer(self, state: int) -> int:
            return int(state == 0)

        def size(self, state: int) -> int:
            return state

        def labels(self, tokens: torch.Tensor) -> torch.Tensor:
            return (tokens == 1).long()

    counter = machines.Counter(5, ((False, 1), (True, 0)), (1, 0, 0, 0, 0), 2)
    task, model = Climbing(counter), machines.compiled(counter)
    certificate = certify(model, task, depth=3, rounds=0)
    assert certificate.verdict == "proven up to depth 3", certificate.statement
    store.save(certificate, tmp_path)
    return Folder(tmp_path, model.config, task)


def test_a_good_certificate_holds(counted: Folder) -> None:
    assert counted.check() == (
        "At every length, the locked model's answer after each token is that of the task 'counting' "
        "(a count)."
    )


def test_one_up_to_a_depth_holds(climbing: Folder) -> None:
    assert "that goes no deeper than 3 is that of the task 'climbing'" in climbing.check()


def refuses_another_answer(folder: Folder) -> None:
    """A machine with one answer changed is not that of the automaton."""
    document = folder.document
    first = document["machine"]["transitions"][0][0]
    document["machine"]["outputs"][first] ^= 1
    folder.write(document)
    with pytest.raises(Rejected, match="its automaton answers otherwise"):
        folder.check()


@pytest.mark.parametrize(
    ("name", "options"),
    [("parity", {"epochs": 3, "width": 64}), ("group-S3", {"epochs": 20, "width": 8})],
)
def test_trained_runs_are_certified_and_hold(tmp_path: Path, name: str, options: Any) -> None:
    run = csprop.train(name, out=tmp_path, samples=1000, **options)
    certificate = certify(run.model, run.task)
    assert certificate.verdict == "proven for all lengths", certificate.statement
    store.save(certificate, tmp_path)
    folder = Folder(tmp_path, run.config.model, run.task)
    assert f"the task {name!r}" in folder.check()
    refuses_another_answer(folder)


def test_a_file_s_certificate_holds_until_a_row_is_answered_otherwise(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("0,even\n1,odd\n0110,even\n")
    model = machines.compiled(machines.Counter(2, ((False, 0), (False, 1)), (0, 1), 2))
    task = tasks.from_file(tmp_path / "own.csv")
    store.save(certify(model, task), tmp_path / "run")
    folder = Folder(tmp_path / "run", model.config, task)
    assert "agrees with every row of own.csv" in folder.check()
    refuses_another_answer(folder)


def test_a_file_s_rows_that_disagree_are_counted_again(tmp_path: Path) -> None:
    labels = {f"{number:05b}": f"{number:05b}".count("1") % 2 for number in range(32)}
    labels |= {"00111": 0, "11111": 0}
    lines = (f"{each},{('even', 'odd')[odd]}\n" for each, odd in labels.items())
    (tmp_path / "own.csv").write_text("".join(lines))
    model = machines.compiled(machines.Counter(2, ((False, 0), (False, 1)), (0, 1), 2))
    task = tasks.from_file(tmp_path / "own.csv")
    store.save(certify(model, task), tmp_path / "run")
    folder = Folder(tmp_path / "run", model.config, task)
    document = folder.document
    assert (document["rows"], document["disagreeing"]) == (32, [8, 32])
    assert "agrees with 30 of 32 rows of own.csv" in folder.check()
    forged: list[dict[str, Any]] = [
        {"disagreeing": [8]}, {"disagreeing": [8, 31]}, {"disagreeing": [7, 31]}, {"rows": 33},
        {"disagreeing": [8, 32, 32]}, {"disagreeing": [32, 8]}, {"disagreeing": None}, {"rows": 32.0},
        {"disagreeing": [], "verdict": "agrees with every row"}, {"disagreeing": [8.0, 32]},
        {"verdict": "agrees with 31 of 32 rows"}, {"verdict": "agrees with every row"},
    ]  # fmt: skip
    for change in forged:
        folder.write(document | change)
        with pytest.raises(Rejected, match=r"the rows that disagree are others|its verdict is not"):
            folder.check()


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
    row[0] = row[0] % 4 + 1


def renamed(document: dict[str, Any]) -> None:
    """Another output in the state that the first token leads to."""
    machine = document["machine"]
    state = machine["transitions"][0][0]
    machine["outputs"][state] = (machine["outputs"][state] + 1) % 4


def swap(document: dict[str, Any]) -> None:
    places = document["machine"]["places"]
    places[1], places[2] = places[2], places[1]


TAMPERINGS: dict[str, tuple[Tamper, str]] = {
    "a transition": (turned, "automaton answers otherwise|is not in the invariant"),
    "an answer": (renamed, "its automaton answers otherwise"),
    "a pair removed": (lambda d: d["pairs"].pop(), "is not in the invariant"),
    "no pairs": (put("pairs", value=[]), "does not begin at the start"),
    "another start": (put("task_states", 0, value="3"), "does not begin at the start"),
    "another first place": (put("machine", "places", 0, value=[1]), "does not begin where"),
    "no proof": (put("proven", value=False), "it claims no proof"),
    "nearly a proof": (put("proven", value="yes"), "it claims no proof"),
    "another verdict": (put("verdict", value="proven up to depth 9"), "its verdict is not"),
    "a depth": (put("depth", value=3), "does not say up to which depth, or needs not"),
    "another task": (put("task", "name", value="parity"), "it is about another task"),
    "a task state": (put("task_states", 2, value="7"), "leaves out a state of the task"),
    "a task state twice": (put("task_states", 2, value="1"), "a state of the task twice"),
    "places swapped": (swap, "leads elsewhere"),
    "a huge state": (put("machine", "transitions", 0, 0, value=10**30), "do not fit together"),
    "a negative state": (put("machine", "transitions", 0, 0, value=-3), "do not fit together"),
    "no whole number": (put("machine", "transitions", 0, 0, value=1.0), "do not fit together"),
    "a huge code": (put("machine", "places", 1, 0, value=10**30), "leads elsewhere|malformed"),
    "a negative code": (put("machine", "places", 1, 0, value=-1), "do not fit together"),
    "no states": (put("machine", value={"places": [], "transitions": [], "outputs": []}), "do not fit"),
    "a table cut": (lambda d: d["machine"]["outputs"].pop(), "do not fit together"),
    "a row cut": (lambda d: d["machine"]["transitions"][1].pop(), "do not fit together"),
    "pairs of three": (put("pairs", 0, value=[0, 0, 0]), "malformed"),
    "pairs of lists": (put("pairs", 0, value=[[], 0]), "malformed"),
    "no machine": (lambda d: d.pop("machine"), "malformed .*machine"),
    "no weights": (lambda d: d.pop("weights"), "malformed .*weights"),
    "no depth": (lambda d: d.pop("depth"), "malformed .*depth"),
    "no states of the task": (put("task_states", value=[]), "malformed"),
    "a machine that is none": (put("machine", value=None), "malformed"),
    "another file": (put("weights", "file", value="../elsewhere"), "one length by trial"),
    "another digest": (put("weights", "sha256", value="0" * 64), "SHA-256"),
}


@pytest.mark.parametrize("kind", TAMPERINGS)
def test_a_changed_certificate_is_rejected(counted: Folder, kind: str) -> None:
    change, complaint = TAMPERINGS[kind]
    document = counted.document
    change(document)
    counted.write(document)
    with pytest.raises(Rejected, match=complaint) as rejected:
        counted.check()
    assert "\n" not in str(rejected.value)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"proven": true}']
)
def test_what_is_no_certificate_is_rejected(counted: Folder, content: bytes) -> None:
    (counted.path / "certificate.json").write_bytes(content)
    with pytest.raises(Rejected, match="malformed"):
        counted.check()


@pytest.mark.parametrize("depth", [None, -1, 2.5, "3", True, float("nan"), 4, 2])
def test_another_depth_is_rejected(climbing: Folder, depth: Any) -> None:
    climbing.write(climbing.document | {"depth": depth})
    with pytest.raises(Rejected, match=r"depth|leaves out a state"):
        climbing.check()


def test_the_words_of_a_certificate_are_not_repeated(counted: Folder) -> None:
    counted.write(counted.document | {"statement": "It tells the future."})
    assert "future" not in counted.check()


def test_one_byte_of_the_weights(counted: Folder) -> None:
    content = counted.weights.read_bytes()
    counted.weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(Rejected, match="SHA-256"):
        counted.check()
    counted.weights.unlink()
    with pytest.raises(Rejected, match=r"malformed .FileNotFoundError"):
        counted.check()


def test_a_file_that_holds_no_weights(counted: Folder) -> None:
    counted.weights.write_bytes(b"nothing")
    digest = hashlib.sha256(b"nothing").hexdigest()
    counted.write(counted.document | {"weights": {"file": counted.weights.name, "sha256": digest}})
    with pytest.raises(Rejected, match="malformed"):
        counted.check()


def scaled(name: str, place: Any, factor: float) -> Callable[[dict[str, Any]], None]:
    def change(tensors: dict[str, Any]) -> None:
        tensors[name][place] *= factor

    return change


REWEIGHED: dict[str, Callable[[dict[str, Any]], None]] = {
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
}


def test_weights_put_back_hold(counted: Folder) -> None:
    counted.reweigh(lambda tensors: None)
    assert "counting" in counted.check()


@pytest.mark.parametrize("kind", REWEIGHED)
def test_a_weight_that_matters_is_noticed_under_a_right_digest(counted: Folder, kind: str) -> None:
    counted.reweigh(REWEIGHED[kind])
    with pytest.raises(Rejected) as rejected:
        counted.check()
    assert "SHA" not in str(rejected.value)


def test_it_shares_nothing_with_the_prover() -> None:
    step, network = "csprop.proof.numpy_step", "csprop.proof.check_network"
    shapes, counting = "csprop.proof.check_shapes", "csprop.proof.check_counting"
    mine = {"csprop.errors", "csprop.tasks.base", step, shapes, counting, network}
    for module, allowed in (
        (checker, mine), (check_counting, {shapes, network}), (check_network, {shapes, step}),
        (numpy_step, {shapes}), (check_shapes, set()),
    ):  # fmt: skip
        tree = ast.parse(Path(str(module.__file__)).read_text())
        imported = {
            name
            for node in ast.walk(tree)
            for name in (
                [alias.name for alias in node.names] if isinstance(node, ast.Import)
                else [f"{node.module}"] if isinstance(node, ast.ImportFrom) else []
            )
        }  # fmt: skip
        assert {name for name in imported if name.startswith("csprop")} == allowed
        assert "torch" not in imported
        assert not any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree))


def option_values() -> dict[str, st.SearchStrategy[Any]]:
    hints = get_type_hints(ModelOptions)
    chosen: dict[str, st.SearchStrategy[Any]] = {}
    for field in fields(ModelOptions):
        if get_origin(hints[field.name]) is Literal:
            chosen[field.name] = st.sampled_from(get_args(hints[field.name]))
        elif hints[field.name] is bool:
            chosen[field.name] = st.booleans()
    return chosen


@st.composite
def configurations(draw: st.DrawFn) -> CSPConfig:
    options: dict[str, Any] = draw(st.fixed_dictionaries(option_values()))
    released = draw(st.booleans())
    order = 2 if released else draw(st.sampled_from([2, 2, 3, 4, 5, 6]))
    rank = draw(st.integers(0, 2))
    options |= {"order": order, "depth": 3 if rank else draw(st.integers(1, 2)), "coupling_rank": rank}
    if not rank:
        options["coupling"] = "shared"
    if order > 2:
        options |= {"rotate": "state", "angle": "free"}
        if options["decoder"] in ("phase", "complex"):
            options["decoder"] = "linear"
    if not released and draw(st.booleans()):
        options |= routing(draw)
    elif options["h0"] == "place":
        options["h0"] = "learned"
    if released:
        options["decay"] = draw(st.sampled_from(["softplus", "exp", "unit"]))
    if options["decay"] == "count":
        options |= {"order": 2, "rotate": "none", "h0": "line"}
        options |= {"coupling_rank": 0, "coupling": "shared"}
        options |= {"activation": "none"} if options["activation"] == "step" else {}
    if options["decay"] not in ("switch", "reset"):
        options["enter"] = "input"
    options.setdefault("width", 3)
    options.setdefault("kinds", [])
    options.setdefault("places", 0)
    options |= going_together(options)
    options |= {} if options["coupling_rank"] else {"coupling": "shared"}
    return CSPConfig(vocab_size=3, num_classes=4, **options)


def routing(draw: st.DrawFn) -> dict[str, Any]:
    """Options of a model that routes, or of one that also rotates."""
    options: dict[str, Any] = {"width": 6, "order": 2, "coupling_rank": 0, "coupling": "shared"}
    options |= {"places": draw(st.sampled_from([2, 3, 6])), "maps": draw(st.sampled_from([0, 1, 2]))}
    if draw(st.booleans()):
        known = st.sampled_from(["rotor", "router", "counter", "switch"])
        kinds = draw(st.lists(known, min_size=1, max_size=3))
        return options | {"depth": len(kinds), "kinds": kinds}
    options |= {"rotate": draw(st.sampled_from(["none", "state"])), "decay": "none"}
    options |= {"activation": draw(st.sampled_from(["none", "boundary"]))}
    return options | {"h0": draw(st.sampled_from(["place", "learned"]))}


ROTORS = [
    CSPConfig(
        vocab_size=3, num_classes=4, width=3, depth=2, order=order, rotate="state", angle="free",
        decay=decay, rotation="per_channel", gate="per_channel", decoder="linear", norm="none",
    )
    for order in (3, 4, 5, 6) for decay in ("reset", "switch")
]  # fmt: skip


def assert_transcribed(config: CSPConfig, seed: int) -> None:
    draws = torch.Generator().manual_seed(seed)
    model = CSP(config, draws).double().requires_grad_(False)
    for parameter in model.parameters():
        parameter.add_(0.5 * torch.randn(parameter.shape, generator=draws, dtype=torch.float64))
    shape = (config.depth, config.planes, config.width)
    state = torch.randn(shape, generator=draws, dtype=torch.float64)
    for layer in range(config.depth):
        if config.of_layer(layer).decay == "count":
            state[layer] = state[layer].round()
    if config.recurrence == "cumulative":  # the last plane is a product of decays, which may be tiny
        state[:, -1] = (9 * state[:, -1]).sigmoid()
    after, scores = model.step(state[None].repeat(3, 1, 1, 1), torch.arange(3))
    for token in range(3):
        # Codes: where the state is, and where a step leads, so that snapping changes nothing.
        codes = torch.stack([state, after[token]], dim=1)  # (L, 2, M, D)
        tensors = {f"network.{name}": value.numpy() for name, value in model.state_dict().items()}
        tensors |= {f"codes_{layer}": each.numpy() for layer, each in enumerate(codes)}
        tensors["kept"] = np.ones((config.depth, config.width))
        network = Network(tensors, asdict(config))
        where, near, said, _ = network.move([0] * config.depth, token)
        for each, number, want in zip(codes, where, after[token], strict=True):
            np.testing.assert_allclose(each[number].numpy(), want.numpy(), rtol=1e-9, atol=1e-9)
        scale = max(1.0, float(after[token].abs().max()))
        assert max(near) <= 1e-9 * scale
        np.testing.assert_allclose(said, scores[token].numpy(), rtol=1e-9, atol=1e-9 * scale)
        starts = np.stack(network.start)
        np.testing.assert_allclose(starts, model.initial_state()[0].numpy(), rtol=1e-12, atol=1e-12)


@settings(max_examples=150)
@given(config=configurations(), seed=st.integers(0, 2**31))
def test_its_network_is_the_model(config: CSPConfig, seed: int) -> None:
    try:
        assert_transcribed(config, seed)
    except Rejected:  # a random gate may lie next to 0, or random weights be too large for float32
        reject()


@settings(max_examples=150)
@given(config=configurations())
def test_its_shapes_are_the_model_s(config: CSPConfig) -> None:
    shapes = {f"network.{name}": tuple(each.shape) for name, each in CSP(config).state_dict().items()}
    assert check_shapes.shapes_of(asdict(config)) == shapes | {"kept": (config.depth, config.width)}


@pytest.mark.parametrize("config", ROTORS, ids=lambda config: f"{config.order}-{config.decay}")
def test_its_rotations_are_the_model_s(config: CSPConfig) -> None:
    for seed in range(5):
        assert_transcribed(config, seed)


def cumulative() -> CSP:
    """What was the last token? Nothing enters a state that is kept as it is; the skip knows."""
    config = CSPConfig(
        vocab_size=2, num_classes=2, width=2, depth=1, recurrence="cumulative", entrance="sine",
        decay="exp", projection="atan2", input_map="linear", norm="root", embedding="narrow",
        decoder="linear",
    )  # fmt: skip
    model = CSP(config, torch.Generator().manual_seed(0)).requires_grad_(False)
    block: Any = model.layers[0]
    for part in (block.gate, block.entrance):
        part.weight.zero_()
    block.gate.bias.fill_(-40.0)  # α = 1
    block.entrance.bias.fill_(-np.pi / 2)  # γ = 0
    away = model.embedding[0] - model.embedding[1]
    model.widen.weight[0] = away  # 1 for the first token, −1 for the second
    model.widen.bias[0] = 0.0
    model.decoder.linear.weight.zero_()  # pyright: ignore
    model.decoder.linear.weight[:, 0] = torch.tensor([-1.0, 1.0])  # pyright: ignore
    return model


def test_a_certificate_of_cumulative_sums_has_codes_of_all_planes_and_holds(tmp_path: Path) -> None:
    counter = machines.Counter(2, ((True, 1), (True, 0)), (0, 1), 2)
    task, model = machines.Counting(counter), cumulative()
    certificate = certify(model, task, machines.few(task), rounds=0)
    assert certificate.verdict == "proven for all lengths", certificate.statement
    store.save(certificate, tmp_path)
    folder = Folder(tmp_path, model.config, task)
    assert load(folder.weights.read_bytes())["codes_0"].shape[1:] == (3, 2)
    assert "the task 'counting'" in folder.check()
    assert store._locked(RunFolder(tmp_path), folder.weights.read_bytes(), model.config)
    refuses_another_answer(folder)
    folder.reweigh(lambda tensors: tensors.update(codes_0=tensors["codes_0"][:, :2].copy()))
    with pytest.raises(Rejected, match="its weights are not those of such a model"):
        folder.check()


def test_options_that_older_certificates_lack_have_defaults() -> None:
    config = CSPConfig(vocab_size=3, num_classes=4, width=3, depth=2)
    old = {name: value for name, value in asdict(config).items() if name in FIRST_OPTIONS}
    assert check_shapes.shapes_of(old) == check_shapes.shapes_of(asdict(config))
    assert check_shapes.planes(old) == 2
    new = {field.name: field.default for field in fields(ModelOptions)}
    for name, value in check_shapes.of_layer(old, 0).items():
        assert name in old or value == new[name]


def test_a_certificate_of_one_length_is_no_proof_of_all(counted: Folder) -> None:
    document = counted.document
    document["weights"]["file"] = "model.safetensors"
    counted.write(document)
    with pytest.raises(Rejected, match="it covers one length by trial"):
        counted.check()


def test_a_certificate_of_another_task_s_run(counted: Folder) -> None:
    counted.task = tasks.get("parity")
    with pytest.raises(Rejected, match="it is about another task"):
        counted.check()
