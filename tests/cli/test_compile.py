"""`csprop compile`, and every verb on the run that it writes."""

import io
import json
import shutil
import sys
from pathlib import Path

import pytest
import torch

import csprop
from csprop.automata.automaton import CounterAutomaton
from csprop.automata.counting import CounterMachine
from csprop.cli.main import main
from csprop.runs.machines import from_machine
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


def written(folder: Path) -> Path:
    path, out = folder / "door.json", folder / "run"
    path.write_text(json.dumps(DOOR.to_json()))
    assert main(["compile", str(path), "--out", str(out)]) == 0
    return out


@pytest.fixture
def door(tmp_path: Path) -> Path:
    return written(tmp_path)


def test_it_says_what_it_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = written(tmp_path)
    said = capsys.readouterr().out
    assert said.startswith(f"{run}: proven for all lengths\n")
    words = " ".join(said.split())
    assert "is that of the task 'door.json' (a machine of 5 states)." in words
    assert "5 reachable states, 4 in the smallest; 4 tokens, 2 classes" in words
    assert "a router of 8 places" in words
    other = str(tmp_path / "other")
    assert main(["compile", str(tmp_path / "door.json"), "--out", other, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["states"], found["minimal_states"], found["tokens"], found["classes"]) == (5, 4, 4, 2)
    made = csprop.load(other)
    assert found["parameters"] == sum(each.numel() for each in made.model.parameters())
    assert found["proven"] is True
    assert made.certificate is not None
    assert found["pairs"] == len(made.certificate.document["pairs"])


def test_every_verb_works_on_it(
    door: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = str(door)
    assert main(["certify", run, "--check"]) == 0
    assert main(["certify", run]) == 0
    assert main(["eval", run, "--lengths", "5,300"]) == 0
    assert main(["eval", run, "--lengths", "5", "--exhaustive", "--as-trained"]) == 0
    assert main(["report", run, "--out", str(tmp_path / "page.html")]) == 0
    assert main(["explore", run, "--no-open"]) == 0
    capsys.readouterr()
    for options in ([], ["--as-trained"]):
        monkeypatch.setattr(sys, "stdin", io.StringIO("open close lock\nlock open\nopen lock close\n"))
        assert main(["predict", run, *options]) == 0
        assert capsys.readouterr().out.split() == ["fine", "alarm", "alarm"]
    assert main(["automaton", run]) == 0
    printed = capsys.readouterr().out
    assert csprop.Automaton.from_json(json.loads(printed)) == DOOR.minimal()
    (tmp_path / "again.json").write_text(printed)
    assert main(["compile", str(tmp_path / "again.json"), "--out", str(tmp_path / "again")]) == 0
    stream = csprop.load(run).stream()
    assert [int(stream.step(token).argmax()) for token in (2, 3, 2, 0, 1)] == [0, 0, 0, 1, 1]


def test_a_run_is_not_overwritten(door: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (door / "config.json").read_bytes()
    capsys.readouterr()
    assert main(["compile", str(door.parent / "door.json"), "--out", str(door)]) == 2
    said = capsys.readouterr().err
    assert said == f"csprop compile: {door}: already holds a run: choose another --out\n"
    assert (door / "config.json").read_bytes() == before
    assert main(["train", "--resume", "--out", str(door)]) == 2  # there is nothing to resume
    assert capsys.readouterr().err.count("\n") == 1


def test_without_out_it_is_bad_usage(door: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["compile", str(door.parent / "door.json")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_copy_elsewhere_still_holds(door: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(door, tmp_path / "copy")
    (tmp_path / "door.json").unlink()  # the machine is in the configuration
    assert main(["certify", str(copy), "--check"]) == 0
    assert csprop.load(copy).locked is not None


def test_a_machine_that_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, run = tmp_path / "stock.json", str(tmp_path / "run")
    path.write_text(json.dumps(STOCK.to_json()))
    assert main(["compile", str(path), "--out", run]) == 0
    said = capsys.readouterr().out
    assert all(len(line) <= 80 or str(tmp_path) in line for line in said.splitlines())
    words = " ".join(said.split())
    assert f"{run}: proven for all lengths and depths" in words
    assert f"machine {len(STOCK)} states, 1 counter, 3 in the smallest; 3 tokens, 3 classes" in words
    assert "model 1 counter and a router of 3 places" in words
    path.unlink()  # the machine is in the configuration
    assert main(["certify", run, "--check"]) == 0
    assert main(["eval", run, "--lengths", "5", "--exhaustive", "--as-trained"]) == 0
    capsys.readouterr()
    monkeypatch.setattr(sys, "stdin", io.StringIO("deliver deliver sell\ndeliver sell\nsell wait\n"))
    assert main(["predict", run]) == 0
    assert capsys.readouterr().out.split() == ["many", "few", "short"]
    assert main(["automaton", run]) == 0
    (tmp_path / "again.json").write_text(capsys.readouterr().out)
    assert main(["compile", str(tmp_path / "again.json"), "--out", f"{run}2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counters"] == 1


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


def test_a_machine_that_counts_is_no_answer_to_another_task() -> None:
    run = from_machine(csprop.tasks.get("anbn"), LANGUAGES["parenthesis"].machine)
    assert run.certificate is not None
    assert (run.certificate.verdict, run.locked) == ("counterexample", None)
    assert run.certificate.document["counterexample"]["sequence"] == "abab"  # balanced, out of order
