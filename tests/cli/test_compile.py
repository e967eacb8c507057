"""`csprop compile`, and every verb on the run that it writes."""

import json
from pathlib import Path

import pytest
import torch

import csprop
from csprop.automata.automaton import CounterAutomaton
from csprop.automata.counting import CounterMachine
from tests.cli.conftest import Shell
from tests.helpers import machines
from tests.helpers.counters import LANGUAGES, plain

DOOR = machines.automaton(
    ("open", "close", "lock", "unlock"), ("fine", "alarm"), True, 0,
    # 0 closed, 1 open, 2 locked, 3 alarm, 4 as 0
    ((1, 4, 2, 0), (1, 0, 3, 3), (3, 2, 2, 0), (3, 3, 3, 3), (1, 0, 2, 4)),
    (0, 0, 0, 1, 0),
)  # fmt: skip


STOCK = CounterAutomaton.from_machine(
    CounterMachine.explore(
        ((2,), (-1,), (0,)),
        "fine",
        lambda state, token, counts: "short" if state == "short" or counts[0] < 0 else "fine",
        lambda state, counts: 2 if state == "short" else int(counts[0] > 2),
        window=3,
    ),
    ("deliver", "sell", "wait"), ("few", "many", "short"), words=True,
)  # fmt: skip


@pytest.fixture
def door(shell: Shell) -> Path:
    """The run of a machine whose file is door.json."""
    path = Path("door.json")
    path.write_text(json.dumps(DOOR.to_json()))
    shell("compile", path, "--out", "run")
    return shell.folder / "run"


def test_it_says_what_it_made(door: Path, shell: Shell) -> None:
    words = shell.words("compile", "door.json", "--out", "other")
    assert words.startswith("other: proven for all lengths ")
    assert "is that of the task 'door.json' (a machine of 5 states)." in words
    assert "states 4, and 4 in the smallest automaton" in words
    found, made = shell.json("compile", "door.json", "--out", "third"), csprop.load(door)
    assert (found["states"], found["minimal_states"], found["tokens"], found["classes"]) == (5, 4, 4, 2)
    assert found["parameters"] == sum(each.numel() for each in made.model.parameters())
    assert found["proven"] is True
    assert made.certificate is not None
    assert found["pairs"] == len(made.certificate.document["pairs"])


def test_every_verb_works_on_it(door: Path, shell: Shell) -> None:
    for argv in (
        ["certify", door, "--check"],
        ["certify", door],
        ["eval", door, "--lengths", "5,300"],
        ["eval", door, "--lengths", "5", "--exhaustive", "--as-trained"],
        ["report", door, "--out", "page.html"],
        ["explore", door, "--no-open"],
    ):
        shell(*argv)
    lines = ["open close lock", "lock open", "open lock close"]
    for options in ([], ["--as-trained"]):
        assert shell.predict(door, lines, *options) == ["fine", "alarm", "alarm"]
    printed = shell("automaton", door).out
    assert csprop.Automaton.from_json(json.loads(printed)) == DOOR.minimal()
    Path("again.json").write_text(printed)
    shell("compile", "again.json", "--out", "again")
    stream = csprop.load(door).stream()
    assert [int(stream.step(token).argmax()) for token in (2, 3, 2, 0, 1)] == [0, 0, 0, 1, 1]


def test_a_run_is_not_overwritten(door: Path, shell: Shell) -> None:
    before = (door / "config.json").read_bytes()
    said = shell.refuse("compile", "door.json", "--out", "run")
    assert said == "csprop compile: run: already holds a run: choose another --out\n"
    shell.refuse("train", "--resume", "--out", "run")  # there is nothing to resume
    assert (door / "config.json").read_bytes() == before


def test_a_machine_that_counts(shell: Shell) -> None:
    path = Path("stock.json")
    path.write_text(json.dumps(STOCK.to_json()))
    words = shell.words("compile", path, "--out", "run")
    assert "run: proven for all lengths and depths" in words
    assert "machine 3 states and 1 counter; the network has" in words
    path.unlink()
    shell("certify", "run", "--check")
    shell("eval", "run", "--lengths", "5", "--exhaustive", "--as-trained")
    lines = ["deliver deliver sell", "deliver sell", "sell wait"]
    assert shell.predict("run", lines) == ["many", "few", "short"]
    Path("again.json").write_text(shell("automaton", "run").out)
    assert shell.json("compile", "again.json", "--out", "run2")["counters"] == 1


@pytest.mark.parametrize("name", LANGUAGES)
def test_every_language_that_takes_counting_is_proven(name: str) -> None:
    machine = LANGUAGES[name].machine
    run = csprop.compile(machine)
    assert run.certificate is not None
    assert run.certificate.verdict == "proven for all lengths and depths"
    assert run.locked is not None
    row = tuple(run.task.sample(1, 300, torch.Generator().manual_seed(0))[0].tolist())
    for model in (run.model, run.locked):
        with torch.no_grad():
            assert model(torch.tensor([row])).argmax(dim=2)[0].tolist() == plain(machine, row)
