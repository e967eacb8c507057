"""Models that count: what they decide, what is proven of them, and which faults are noticed."""

import itertools
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import csprop
from csprop.automata.walk import Difference
from csprop.cli.main import main
from csprop.errors import InputError
from csprop.nn.compile import compile_counter
from csprop.nn.model import CSP
from csprop.proof.attempts import certify_counter
from csprop.proof.certify import certify
from csprop.proof.counters import tabulate
from csprop.proof.limits import NotFinite
from csprop.proof.locked_counter import LockedCounter, counting_parts, weights_of
from csprop.proof.prove import prove_counting
from csprop.proof.statements import EVERY_DEPTH
from csprop.tasks import get
from csprop.tasks.base import Task
from tests.helpers.counting import brackets, complete, plant, tripwire, wrong
from tests.helpers.forgery import Draft, at, leaves, put, stored

COUNT = int(os.environ.get("CSPROP_FORGERIES", "120"))
TASKS = (
    "parenthesis", "parenthesis-words", "parenthesis-prefix", "majority", "anbn", "anb2n", "anbncn",
    "anbmcnm", "interleaved",
)  # fmt: skip
PARENTHESIS = get("parenthesis")


def holds(path: Path) -> bool:
    """Return True if the run believes its certificate."""
    try:
        certificate = csprop.load(path).certificate
    except InputError:
        return False
    return certificate is not None and certificate.proven


@pytest.fixture(scope="module")
def switched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = stored(tmp_path_factory.mktemp("runs") / "switched", brackets(), PARENTHESIS, "counter")
    csprop.load(path).certify(rounds=0)
    return path


@pytest.fixture(scope="module")
def routed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, made = tmp_path_factory.mktemp("routed"), {}
    for name in ("anbn", "interleaved"):
        task = get(name)
        assert task.counting is not None
        model = compile_counter(task.counting, len(task.classes))
        made[name] = stored(folder / name, model, task, "counter")
        csprop.load(made[name]).certify(rounds=0)
    return made


@pytest.mark.parametrize("name", TASKS)
def test_a_compiled_machine_is_proven(name: str) -> None:
    task = get(name)
    assert task.counting is not None
    found = certify_counter(compile_counter(task.counting, len(task.classes)), task)
    assert found.verdict == EVERY_DEPTH, found.statement
    assert found.document["exact_up_to"] == {"network": 2**24, "locked": 2**62}


def test_a_model_is_tabulated_as_the_network_answers() -> None:
    model = brackets()
    machine = tabulate(weights_of(model)).machine
    rows = torch.tensor(list(itertools.product(range(2), repeat=12)))
    with torch.no_grad():
        assert torch.equal(
            model(rows).argmax(dim=2), torch.from_numpy(machine.run(rows).astype("int64"))
        )
    deep = torch.tensor([[0] * 3000 + [1] * 3001])
    with torch.no_grad():
        said = model(deep).argmax(dim=2)[0]
    assert said.tolist() == machine.run(deep[0]).tolist()
    assert said.nonzero()[:, 0].tolist() == [5999]


def test_the_locked_model_answers_as_the_task_does(switched: Path) -> None:
    run = csprop.load(switched)
    locked = run.locked
    assert isinstance(locked, LockedCounter)
    rows = torch.tensor(list(itertools.product(range(2), repeat=10)))
    assert torch.equal(locked(rows).argmax(dim=2), PARENTHESIS.labels(rows))
    assert run.predict(["(" * 2000 + ")" * 2000, "())("]) == ["yes", "no"]


def test_a_count_beyond_what_is_exact_is_refused(switched: Path) -> None:
    run = csprop.load(switched)
    locked = run.locked
    assert isinstance(locked, LockedCounter)
    state = locked.initial_state()
    state[0, 1] = 2**62 - 2
    with pytest.raises(InputError, match="2\\^62"):
        locked(torch.zeros(1, 5, dtype=torch.int64), state)
    stream = locked.stream()
    stream.state = state
    stream.step(0)
    stream.step(0)
    with pytest.raises(InputError, match="2\\^62"):
        stream.step(0)
    stream.step(1)  # what was refused has changed nothing
    network = run.model.initial_state()
    network[0, 0, 0, 0] = 2**24
    with pytest.raises(InputError, match="16,777,216"):
        run.model(torch.zeros(1, 2, dtype=torch.int64), network)


@pytest.mark.parametrize("depth", [3, 40, 59])
def test_what_is_wrong_from_a_depth_on_is_noticed(depth: int) -> None:
    model = brackets()
    tripwire(model, depth + 1)
    deep = [0] * depth + [1] * depth
    assert wrong(model, PARENTHESIS, [deep]) is None or depth < 5
    found = prove_counting(LockedCounter(model), PARENTHESIS, 0, "trained")
    assert isinstance(found, Difference)
    assert found.tokens == (0,) * (depth + 1) + (1,) * (depth + 1)


GATE, BIAS, WEIGHT = "blocks.1.gate.weight", "blocks.1.gate.bias", "decoder.linear.weight"
UNDECIDED: dict[str, tuple[list[tuple[str, Any, Any]], str]] = {
    "a gate near 0 at the count 0": ([(BIAS, 0, 0.0005)], "gate of switch 1 is not decided"),
    "an answer that comes near a tie": ([("decoder.linear.bias", 1, 2.0)], "answer is not decided"),
    "cancelling in a gate": (
        [(GATE, (0, 6), 2.0**19), (BIAS, 0, 0.35 - 2.0**19)], "gate of switch 1 is not decided"),
    "cancelling in a score": (
        [(WEIGHT, (1, 3), 2.0**20), ("decoder.linear.bias", 1, -5.4 - 2.0**20)], "beyond"),
    "in common": ([(WEIGHT, (slice(None), 3), 2.0**20)], "not decided"),
    "overflow": ([("blocks.1.h0", 0, 1e25)], "beyond"),
    "not a number": ([(BIAS, 0, float("nan"))], "not a number"),
    "a count of a million and what the skip adds to it nearly cancel": (
        [("embedding", (0, 0, 3), 2.0**19), ("embedding", (1, 0, 3), -(2.0**19)),
         ("blocks.0.skip", 3, 20.0), ("embedding", (slice(None), 1, 3), -0.98), (GATE, (1, 3), 0.5)],
        "gate of switch 2"),
    "near a half": ([("embedding", (0, 0, 0), 1.4999)], "near a half"),
}  # fmt: skip


@pytest.mark.parametrize("fault", UNDECIDED)
def test_what_float32_may_not_decide_is_refused(fault: str) -> None:
    """The network itself would answer otherwise than its weights say in exact numbers."""
    model, (changes, complaint) = brackets(), UNDECIDED[fault]
    for name, place, value in changes:
        model.get_parameter(name).data[place] = value
    with pytest.raises(NotFinite, match=complaint):
        tabulate(weights_of(model))


def test_a_depth_is_not_asked_for() -> None:
    with pytest.raises(InputError, match="every depth"):
        certify(brackets(), PARENTHESIS, depth=3)


class Never(Task):
    """Always "no"."""

    name, description, vocab, classes = "never", "no", ("(", ")"), ("no", "yes")

    def start(self) -> int:
        return 0

    def step(self, state: int, token: int) -> int:
        return 0 if self.finite else state + 1

    def answer(self, state: int) -> int:
        return 0

    def truth(self, sequence: Sequence[int]) -> int:
        return 0


def test_a_task_without_its_machine_is_refused() -> None:
    class Undeclared(Never):
        finite = False

    found = certify_counter(brackets(), Undeclared())
    assert not found.proven
    assert "CountingTask" in found.statement


def test_a_counter_can_solve_a_finite_task() -> None:
    model = brackets()
    assert certify_counter(model, Never()).verdict == "counterexample"
    with torch.no_grad():
        counting_parts(model)[2].bias[1] = -20.0
    assert certify_counter(model, Never()).verdict == EVERY_DEPTH


def test_genuine_certificates_hold(switched: Path, routed: dict[str, Path]) -> None:
    assert all(map(holds, (switched, *routed.values())))
    assert main(["certify", str(switched), "--check"]) == 0


@pytest.mark.parametrize("first", range(0, COUNT, 20))
def test_no_planted_fault_is_certified(
    switched: Path, routed: dict[str, Path], tmp_path: Path, first: int
) -> None:
    deep = {
        "parenthesis": [[0] * d + [1] * d for d in (41, 59, 200)],
        "anbn": [[0] * d + [1] * d for d in (41, 200)],
        "interleaved": [[0] * d + [2] * d + [1] * d + [3] * d for d in (41, 100)],
    }
    for number in range(first, min(first + 20, COUNT)):
        dice = random.Random(number)
        source = dice.choice([switched, *routed.values()])
        draft = Draft.of(source)
        said = [plant(draft.locked, draft.task, dice) for _ in range(dice.choice([1, 1, 2]))]
        complete(draft)
        draft.model = {n.removeprefix("network."): each for n, each in draft.locked.items()}
        path = tmp_path / str(number)
        draft.write(path)
        if holds(path):
            model = csprop.load(path).model
            assert isinstance(model, CSP)
            found = wrong(model, draft.task, deep[draft.task.name])
            assert found is None, f"{said}: certified, and wrong after {found}"


@pytest.mark.parametrize("first", range(0, COUNT, 60))
def test_no_forged_certificate_holds(
    switched: Path, routed: dict[str, Path], tmp_path: Path, first: int
) -> None:
    """Another number is refused, unless it is a transition of the automaton that no input takes."""
    for number in range(first, min(first + 60, COUNT)):
        dice = random.Random(number)
        source = dice.choice([switched, *routed.values()])
        draft = Draft.of(source)
        part = dice.choice(["counting", "automaton", "ranges", "pairs", "task_ranges", "task_pairs"])
        ways = leaves(draft.certificate[part], (part,))
        way = dice.choice([each for each in ways if type(at(draft.certificate, each)) is int])
        old = at(draft.certificate, way)
        put(draft.certificate, way, old + dice.choice([-2, -1, 1, 2]))
        path = tmp_path / str(number)
        draft.write(path)
        if holds(path):
            assert way[:2] == ("automaton", "transitions")
            automaton, task = csprop.load(path).automaton, draft.task
            assert automaton is not None
            rows = np.array(list(itertools.product(range(len(task.vocab)), repeat=8)))
            assert (automaton.run(rows) == task.classify(rows)).all()
