"""Machines compiled into weights: equal to the table or the definition at every prefix and depth."""

import json
import random
from collections import deque
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import csprop
from csprop import CSP, Automaton, Router
from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.cells.router import lead
from csprop.errors import InputError
from csprop.nn import compile as compiling
from csprop.nn.compile import WIDEST, compile_counter, compile_machine
from csprop.proof.locked import Locked
from csprop.runs.machines import from_machine
from csprop.tasks import MachineTask, from_description
from tests.helpers import machines
from tests.helpers.counters import brackets, plain


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
    want, tokens = machine.run(rows).tolist(), torch.tensor(rows)
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


def draw_counter(
    seed: int, counters: int, window: int, tokens: int = 3, states: int = 4
) -> CounterMachine:
    """Return a random machine. Most of its states depend on earlier counts."""
    dice = random.Random(f"counter machine {seed}")
    symbols = tokens * (2 * window + 1) ** counters
    rows = tuple(tuple(dice.randrange(states) for _ in range(symbols)) for _ in range(states))
    control = Machine(transitions=rows, outputs=tuple(dice.randrange(3) for _ in range(states)))
    increments = tuple(tuple(dice.randint(-3, 3) for _ in range(counters)) for _ in range(tokens))
    return CounterMachine(increments=increments, window=window, control=control)


def deep(machine: CounterMachine, dice: random.Random, length: int) -> list[int]:
    """Return a sequence of long runs of one token: counts go far from zero and come back."""
    row: list[int] = []
    while len(row) < length:
        row += [dice.randrange(machine.symbols)] * dice.choice((1, 1, 2, 30))
    return row[:length]


@torch.no_grad()
def answers(model: CSP, rows: list[list[int]]) -> list[list[int]]:
    return model(torch.tensor(rows)).argmax(dim=2).tolist()


@pytest.mark.parametrize("window", [1, 2, 3, 4])
@pytest.mark.parametrize("counters", [1, 2])
def test_random_machines_on_every_short_input_and_deep_ones(counters: int, window: int) -> None:
    machine, dice = draw_counter(0, counters, window), random.Random(0)
    model = compile_counter(machine, 3)
    rows = [list(row) for row in product(range(3), repeat=5)]
    assert answers(model, rows) == [plain(machine, tuple(row)) for row in rows]
    rows = [deep(machine, dice, 400) for _ in range(4)]
    assert answers(model, rows) == [plain(machine, tuple(row)) for row in rows]
    stream = model.stream()
    assert [int(stream.step(token).argmax()) for token in rows[0]] == plain(machine, tuple(rows[0]))


@given(
    seed=st.integers(0, 2**31), counters=st.integers(0, 2), window=st.integers(0, 5),
    tokens=st.integers(1, 9), states=st.integers(1, 9),
)  # fmt: skip
def test_any_small_machine(seed: int, counters: int, window: int, tokens: int, states: int) -> None:
    machine = draw_counter(seed, counters, window, tokens, states)
    row = deep(machine, random.Random(seed), 120)
    assert answers(compile_counter(machine, 3), [row]) == [plain(machine, tuple(row))]


@pytest.mark.parametrize(
    ("counters", "window"),
    [(1, 1), (1, 2), (1, 4), (1, WIDEST), (2, 1), (2, 3)],
)
def test_every_pair_of_a_token_and_a_view_leads_clearly_at_any_count(
    counters: int, window: int
) -> None:
    """The keys of all pairs, from states of the counters that are set by hand."""

    def state(at: int, token: int, counts: tuple[int, ...]) -> int:
        digits = [count + window for count in (token, *counts)]
        return (at + sum((place + 2) * digit**2 for place, digit in enumerate(digits))) % 53

    tokens = ((1, 0), (-1, 1), (0, -1), (0, 0)) if counters == 2 else ((1,), (-1,), (0,))
    machine = CounterMachine.explore(tokens, 0, state, lambda at, counts: int(at == 0), window)
    assert machine.reduce().window == window
    model = compile_counter(machine, 2)
    small = machine.reduce()
    counter, router = model.layers
    near = [*range(-window - 2, window + 3), 10**6, -(10**6), 2**24, -(2**24)]
    least = torch.inf
    for counts in product(near, repeat=counters):
        h = torch.zeros(small.symbols, 1, 2, model.config.width)
        h[:, :, 1] = 1
        h[:, :, 0, :counters] = torch.tensor(counts).float()
        scores, _ = router.transition(counter.finish(h, model.embedding.detach()[:, None]))
        view = 0
        for count in counts:
            view = view * (2 * window + 1) + max(-window, min(window, count)) + window
        wanted = [token * small.views + view for token in range(small.symbols)]
        assert scores.argmax(dim=2).flatten().tolist() == wanted
        least = min(least, float(lead(scores.detach(), 2).min()))
    assert least > 0.99


def test_a_depth_of_65_536() -> None:
    model, half = compile_counter(brackets(), 2), 1 << 16
    said = answers(model, [[0] * half + [1] * half + [0, 1, 1, 0]])[0]
    assert [place for place, answer in enumerate(said) if answer] == [2 * half - 1, 2 * half + 1]


def test_a_hundred_tokens_are_told_apart() -> None:
    """Token 37 opens, 64 closes, and the others do nothing."""
    increments = tuple((int(token == 37) - int(token == 64),) for token in range(100))
    machine = CounterMachine.explore(
        increments, 0, lambda *_: 0, lambda _, counts: int(counts[0] > 0), 1
    )
    dice = random.Random(0)
    row = [dice.choice((37, 64, dice.randrange(100))) for _ in range(500)]
    depths = [row[:end].count(37) - row[:end].count(64) for end in range(1, 501)]
    assert answers(compile_counter(machine, 2), [row]) == [[int(depth > 0) for depth in depths]]


def test_a_machine_is_reduced_first() -> None:
    wide = compile_counter(brackets(window=5, scale=3), 2)
    assert wide.config.layers[1] == Router(maps=6)
    assert wide.embedding[:, 0, 0].tolist() == [1.0, -1.0]


def threshold(window: int) -> CounterMachine:
    return CounterMachine.explore(
        ((1,), (-1,)), 0, lambda *_: 0, lambda _, counts: int(counts[0] >= window), window
    )


def test_a_machine_that_is_too_large_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = [0] * (WIDEST + 3) + [1] * 5
    assert answers(compile_counter(threshold(WIDEST), 2), [row]) == [
        plain(threshold(WIDEST), tuple(row))
    ]
    with pytest.raises(InputError, match=r"counts from −33 to 33 apart.* may be 32 wide"):
        compile_counter(threshold(33), 2)
    many = CounterMachine.explore(
        ((2**20 + 1,), (-1,)), 0, lambda *_: 0, lambda _, counts: int(counts[0] > 0)
    )
    with pytest.raises(InputError, match="a token adds more than 1,048,576"):
        compile_counter(many, 2)
    monkeypatch.setattr(compiling, "MOST_WEIGHTS", 50)
    with pytest.raises(InputError, match="2 tokens with 3 views of the counts take 54 weights"):
        compile_counter(brackets(), 2)
