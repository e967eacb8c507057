"""The verbs on a run that counts: what they say of it, and that deep brackets are right."""

import io
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import csprop
from csprop.automata.automaton import CounterAutomaton
from csprop.cli.main import main
from csprop.proof.locked_counter import LockedCounter
from csprop.runs.run import Run
from tests.automata.test_export import GCC
from tests.cli.test_exact_cli import refused
from tests.helpers.counters import balanced

STRINGS = ["".join(s) for n in range(1, 9) for s in itertools.product("()", repeat=n)]
HALF = 2**19
DEEP = ["(" * HALF + ")" * HALF, "(" * HALF + ")" * (HALF - 1), "(" * (HALF - 1) + ")" * (HALF + 1)]


def truth(text: str) -> str:
    return ("no", "yes")[balanced(tuple("()".index(each) for each in text))]


@pytest.fixture
def proven(brackets: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run; to certify it again gives the certificate that it has, without the search."""
    monkeypatch.setattr(Run, "certify", lambda self, **options: self.certificate)
    return brackets


def predicted(
    run: Path,
    lines: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *options: str,
) -> str:
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))
    capsys.readouterr()
    assert main(["predict", str(run), *options]) == 0
    return capsys.readouterr().out


def test_certify_says_what_is_counted(proven: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", str(proven)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{proven}: proven for all lengths and depths\n")
    document: dict[str, Any] = json.loads((proven / "certificate.json").read_text())
    control = csprop.load(proven).locked
    assert isinstance(control, LockedCounter)
    held = f"the network has {len(control.machine)} states and 1 counter"
    assert f"\nmachine    3 states and 1 counter; {held}\n" in said
    assert "\ncounter c  ( +1, ) −1\n" in said
    window = document["counting"]["window"]
    assert "counts are seen from −1 to 1, and beyond as these; in the network" in said
    assert f"from −{window} to {window}\n" in said
    assert f"each gate is at least {document['gate']:.2f} from" in said
    assert f"leads the next by at least {document['margin']:.2f}\n" in said
    assert "\nexact      counts up to 2^62; in the network's own float32, up to 2^21\n" in said
    assert max(len(line) for line in said.splitlines() if str(proven) not in line) <= 80
    assert "Next, one of" not in said


def test_two_runs_that_count_are_a_table(proven: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", str(proven), str(proven)]) == 0
    said = capsys.readouterr().out
    assert said.count("1 counter") == 2
    assert max(map(len, said.splitlines())) <= 80


def test_a_depth_is_refused_because_every_depth_is_proven(
    brackets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(["certify", brackets, "--depth", "4"], capsys)
    assert "a model that counts is proven at every depth: leave out the depth" in said


@pytest.mark.parametrize("name", ["parenthesis", "anbncn"])
def test_a_task_that_counts_asks_for_a_model_that_counts(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    options = ["--samples", "60", "--width", "4", "--length", "6", "--epochs", "1"]
    assert main(["train", name, "--preset", "rotor", *options, "--out", run]) == 0
    assert main(["certify", run, "--rounds", "0", "--depth", "2"]) == 1
    said = capsys.readouterr().out
    assert "infinitely many states, which only a model that counts can hold" in said
    assert f"  csprop train {name} --preset counter --out {run}-counter\n" in said
    length = {"parenthesis": 16, "anbncn": 12}[name]  # so that there are at most 2^20 inputs
    assert f"  csprop certify {run} --length {length}\n" in said
    assert f"--preset router --out {run}" not in said


def test_predictions_are_certain(
    brackets: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    document = json.loads(predicted(brackets, ["(()", "()"], capsys, monkeypatch, "--json"))
    assert [each["probabilities"] for each in document["predictions"]] == [
        {"no": 1.0, "yes": 0.0},
        {"no": 0.0, "yes": 1.0},
    ]
    document = json.loads(predicted(brackets, ["()"], capsys, monkeypatch, "--json", "--as-trained"))
    assert 0.5 < document["predictions"][0]["probabilities"]["yes"] < 1


def test_eval_counts_no_error(brackets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(brackets), "--exhaustive", "--lengths", "2,8", "--json"]) == 0
    assert main(["eval", str(brackets), "--lengths", "16,4096", "--json"]) == 0
    every, sample = (json.loads(part + "}") for part in capsys.readouterr().out.split("\n}\n")[:2])
    assert [(row["count"], row["wrong"]) for row in every["scores"]] == [(4, 0), (256, 0)]
    assert [row["wrong"] for row in sample["scores"]] == [0, 0]
    assert every["locked"] is True


@pytest.mark.parametrize("format", ["json", "dot", "python", "c"])
def test_every_format_says_what_predict_says(
    format: str,
    brackets: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    want = list(map(truth, STRINGS))
    assert predicted(brackets, STRINGS, capsys, monkeypatch).split() == want
    assert main(["automaton", str(brackets), "--format", format]) == 0
    said = capsys.readouterr()
    assert said.err == f"{brackets}: proven for all lengths and depths; 3 states and 1 counter\n"
    if format == "json":
        machine = CounterAutomaton.from_json(json.loads(said.out))
        tokens = [["()".index(symbol) for symbol in each] for each in STRINGS]
        assert [machine.classes[machine.run(each)[-1]] for each in tokens] == want
    elif format == "dot":
        assert '[label=") if c = 0"];' in said.out
    else:
        command = program(format, said.out, tmp_path)
        assert answers(command, STRINGS) == want


def program(format: str, source: str, folder: Path) -> list[str]:
    path = folder / ("machine.py" if format == "python" else "machine.c")
    path.write_text(source)
    if format == "python":
        return [sys.executable, str(path)]
    if GCC is None:
        pytest.skip("there is no C compiler")
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([GCC, *flags, str(path), "-o", str(folder / "machine")], check=True)
    return [str(folder / "machine")]


def answers(command: list[str], lines: list[str]) -> list[str]:
    text = "\n".join(lines) + "\n"
    result = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    assert result.stderr == ""
    return result.stdout.split()


def test_a_million_tokens_half_a_million_deep(
    brackets: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    want = ["yes", "no", "no"]
    assert predicted(brackets, DEEP, capsys, monkeypatch).split() == want
    run = csprop.load(brackets)
    assert run.predict(DEEP) == want
    stream = run.stream()
    for token in [0] * 1000 + [1] * 999:
        assert int(stream.step(token).argmax()) == 0
    assert int(stream.step(1).argmax()) == 1
    assert main(["automaton", str(brackets), "--format", "c"]) == 0
    assert answers(program("c", capsys.readouterr().out, tmp_path), DEEP) == want


def test_the_tasks_that_count_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks"]) == 0
    marked = re.findall(r"^  (\S+) \*  ", capsys.readouterr().out, flags=re.MULTILINE)
    assert marked == [task.name for task in csprop.tasks.catalogue() if task.counting is not None]
    assert "parenthesis" in marked
