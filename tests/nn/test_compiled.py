"""Machines compiled into router weights: equal to the table at every prefix, and by a walk of pairs."""

import json
import random
from collections import deque
from pathlib import Path
from typing import Any

import pytest
import torch

import csprop
from csprop import Automaton
from csprop.automata.machine import Machine
from csprop.errors import InputError
from csprop.nn import compile as compiling
from csprop.nn.compile import compile_machine
from csprop.proof.locked import Locked
from csprop.runs.machines import from_machine
from csprop.tasks import MachineTask, from_description
from tests.helpers import machines


def draw(seed: int, most: int = 200) -> Automaton:
    """Return a random machine; half of them have a start without an answer."""
    dice = random.Random(f"machine {seed}")
    states, tokens, classes = dice.randint(1, most), dice.randint(1, 4), dice.randint(2, 5)
    rows = [tuple(dice.randrange(states) for _ in range(tokens)) for _ in range(states)]
    outputs: list[int | None] = [dice.randrange(classes) for _ in range(states)]
    start = dice.randrange(states)
    if dice.random() < 0.5:
        rows.append(rows[start])
        outputs.append(None)
        start = states
    names = machines.names(max(tokens, classes))
    return machines.automaton(
        names[:tokens], names[:classes], False, start, tuple(rows), tuple(outputs)
    )


def is_same(left: Machine, right: Machine) -> bool:
    """Return True if two tables answer alike after every input, by plain search."""
    todo = deque([(left.start, right.start)])
    seen = set(todo)
    while todo:
        a, b = todo.popleft()
        for pair in zip(left.transitions[a], right.transitions[b], strict=True):
            if left.outputs[pair[0]] != right.outputs[pair[1]]:
                return False
            if pair not in seen:
                seen.add(pair)
                todo.append(pair)
    return True


def assert_same(run: csprop.Run, machine: Automaton, seed: int, length: int = 60) -> None:
    """The model as written and the locked one say what the table says, after every prefix."""
    dice = random.Random(f"strings {seed}")
    rows = [[dice.randrange(machine.symbols) for _ in range(length)] for _ in range(8)]
    want = []
    for row in rows:
        state, said = machine.start, []
        for token in row:
            state = machine.transitions[state][token]
            said.append(machine.outputs[state])
        want.append(said)
    tokens = torch.tensor(rows)
    assert run.locked is not None
    for model in (run.model, run.locked):
        with torch.no_grad():
            assert model(tokens).argmax(dim=2).tolist() == want
    stream = run.model.stream()
    assert [int(stream.step(token).argmax()) for token in rows[0]] == want[0]


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[pytest.mark.slow] if n >= 8 else []) for n in range(60)]
)
def test_random_machines_of_up_to_200_states(seed: int) -> None:
    machine = draw(seed, most=7 if seed % 2 else 200)
    run = csprop.compile(machine)
    described = run.task.describe()
    assert from_description(json.loads(json.dumps(described)), Path()).describe() == described
    assert run.certificate is not None
    assert run.certificate.verdict == "proven for all lengths", run.certificate.statement
    assert_same(run, machine, seed)
    assert isinstance(run.locked, Locked)
    assert isinstance(run.automaton, Automaton)
    assert is_same(run.locked.machine, machine)
    assert is_same(run.automaton, machine)


def test_states_that_no_input_tells_apart_share_a_place() -> None:
    parity = machines.automaton("01", ("even", "odd"), False, 0, ((0, 1), (1, 0)), (0, 1))
    twice = machines.automaton(
        "01", ("even", "odd"), False, 3, ((2, 1), (3, 0), (0, 3), (1, 2)), (0, 1, 0, 1)
    )
    assert len(compiling.codes(compile_machine(parity, 2))) == 2
    assert len(compiling.codes(compile_machine(twice, 2))) == 2


def test_thousands_of_tokens_are_told_apart() -> None:
    """Two states, and 3,000 tokens of which every third one switches."""
    tokens = tuple(f"t{number}" for number in range(3000))
    row = tuple(int(number % 3 == 0) for number in range(3000))
    flipped = tuple(1 - each for each in row)
    machine = machines.automaton(tokens, ("off", "on"), True, 0, (row, flipped), (0, 1))
    run = csprop.compile(machine)
    assert run.certificate is not None
    assert run.certificate.proven
    assert_same(run, machine, 0)


def test_margins_are_comfortable() -> None:
    run = csprop.compile(draw(1))
    assert run.certificate is not None
    (layer,) = run.certificate.document["layers"]
    assert (layer["gap"], layer["snap"]) == (1.0, 0.0)
    assert layer["gate"] > 0.05
    assert run.certificate.document["margin"] >= 1


def test_a_machine_that_is_too_large_is_refused_before_it_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ring = Machine(transitions=tuple(((s + 1) % 600,) for s in range(600)),
                   outputs=(1, *(0,) * 599))  # fmt: skip
    with pytest.raises(InputError, match="too large: 600 states and 1 tokens take 360,000 weights"):
        compile_machine(ring, 2)
    monkeypatch.setattr(compiling, "MOST_WEIGHTS", 1000)
    with pytest.raises(InputError, match="there may be 512 states and 1,000 weights"):
        compile_machine(draw(1), 5)


def test_a_run_of_a_file_agrees_with_some_of_its_rows(tmp_path: Path) -> None:
    strings = [f"{number:06b}" for number in range(64)]
    wrong = {3, 30, 31}
    said = (each.count("1") + (row in wrong) for row, each in enumerate(strings, start=1))
    lines = (f"{each},{('even', 'odd')[odd % 2]}\n" for each, odd in zip(strings, said, strict=True))
    (tmp_path / "own.csv").write_text("".join(lines))
    task = csprop.tasks.from_file(tmp_path / "own.csv")
    parity = Machine(transitions=((0, 1), (1, 0)), outputs=(0, 1))
    run = from_machine(task, parity, tmp_path / "run", seed=3)
    for each in (run, csprop.load(tmp_path / "run")):
        assert each.certificate is not None
        assert each.certificate.verdict == "agrees with 61 of 64 rows"
        assert each.certificate.document["disagreeing"] == [3, 30, 31]
        assert each.result is not None
        assert each.result.accuracy == 61 / 64
        assert each.config.seed == 3


def test_a_machine_that_is_no_answer_to_a_task_is_not_proven(tmp_path: Path) -> None:
    parity, constant = csprop.tasks.get("parity"), Machine(transitions=((0, 0),), outputs=(0,))
    run = from_machine(parity, constant, tmp_path / "run")
    assert run.certificate is not None
    assert (run.certificate.verdict, run.locked) == ("counterexample", None)
    assert run.certificate.statement == "Nothing is proven: after 1 it says 'even', and 'odd' is right."
    assert run.result is not None
    assert 0.4 < run.result.accuracy < 0.6
    again = csprop.load(tmp_path / "run").certificate
    assert again is not None
    assert again.verdict == "counterexample"


@pytest.mark.parametrize(
    "machine",
    [
        Machine(transitions=((0,),), outputs=(0,)),
        Machine(transitions=((0, 0),), outputs=(2,)),
        machines.automaton("10", ("even", "odd"), False, 0, ((0, 0),), (0,)),
        machines.automaton("01", ("odd", "even"), False, 0, ((0, 0),), (0,)),
    ],
)
def test_a_machine_of_other_tokens_or_classes_is_refused(machine: Machine) -> None:
    with pytest.raises(InputError, match="parity: the machine has other tokens or classes"):
        from_machine(csprop.tasks.get("parity"), machine)


def test_the_task_of_a_machine() -> None:
    lamp = machines.automaton(("press", "off"), ("dark", "lit"), True, 2,
                              ((1, 0), (0, 0), (1, 0)), (0, 1, None))  # fmt: skip
    task: Any = MachineTask(lamp, "lamp.json")
    assert [task.truth(each) for each in ([0], [0, 0], [0, 0, 0], [0, 1])] == [1, 0, 1, 0]
    assert task.machine.run([0, 0, 0, 1]).tolist() == [1, 0, 1, 0]
    assert task.step(task.start(), 0) == 1
    with pytest.raises(InputError, match="no answer before the first token"):
        task.answer(task.start())
    with pytest.raises(InputError, match="'parity' is the name of a built-in task"):
        from_description(MachineTask(lamp, "parity").describe(), Path())
