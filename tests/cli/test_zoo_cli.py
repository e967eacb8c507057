"""`csprop zoo`, and zoo:NAME wherever a command reads a run."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import csprop
from csprop.cli.main import main
from csprop.training.checkpoint import FILES, MANIFEST, RunFolder
from csprop.zoo.archive import index


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def refused(argv: list[str], here: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Exit 2, one sentence on stderr, and nothing written."""
    capsys.readouterr()
    assert main(argv) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert not [*here.iterdir()]
    return said.err


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo"]) == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    for entry in index():
        line = re.search(rf"^│ {entry['name']} .*$", said, flags=re.MULTILINE)
        assert line, entry["name"]
        counters = [str(entry["counters"])] if "depths" in entry["verdict"] else []
        shown = [str(entry["states"]), *counters, entry["made"], entry["preset"], str(entry["seed"])]
        assert line[0].replace("│", " ").split()[1:] == shown
    for task in csprop.tasks.catalogue():
        assert task.name in said
    assert "No proof exists: neither a finite machine nor counters" in " ".join(said.split())


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo", "--json"]) == 0
    found = document(capsys)
    assert found["runs"] == index()
    without = {task.name for task in csprop.tasks.catalogue() if not task.total}
    assert {each["name"] for each in found["no_proof"]} == without


def test_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("group-C60", "zoo:group-C60"):
        assert main(["zoo", name]) == 0
        said = capsys.readouterr().out
        assert said.startswith("zoo:group-C60: proven for all lengths\n")
        assert "60 states" in said
        assert "trained, preset rotor, seed 0, length 40, short_first 50" in said
    assert main(["zoo", "anbn", "--json"]) == 0
    found = document(capsys)
    assert (found["run"], found["counters"], found["preset"]) == ("zoo:anbn", 2, "counter")


def test_a_copy_is_a_run_directory(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo", "parity", "--out", "runs/copy"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "runs/copy: a copy of zoo:parity. Its proof can be checked:\n  csprop certify"
    )
    copy, packed = RunFolder("runs/copy"), RunFolder("zoo:parity")
    for name in (*filter(packed.has, FILES), MANIFEST):
        assert (copy.path / name).read_bytes() == (packed.files / name).read_bytes()
    assert main(["certify", "runs/copy", "--check"]) == 0
    assert main(["certify", "runs/copy"]) == 0
    capsys.readouterr()
    assert main(["zoo", "parity", "--out", "runs/copy"]) == 2
    assert "runs/copy: already holds a run: choose another --out" in capsys.readouterr().err
    assert main(["zoo", "parity", "--out", str(here / "more"), "--json"]) == 0
    assert document(capsys)["copy"] == str(here / "more")


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["zoo", "partiy"], "the zoo has no run 'partiy': did you mean parity?"),
        (["predict", "zoo:partiy"], "the zoo has no run 'partiy': did you mean parity?"),
        (["report", "zoo:x", "--out", "page.html"], "the zoo has no run 'x': `csprop zoo` lists"),
        (["zoo", "--out", "copy"], "--out copies one run: write its name"),
        (["zoo", "parity", "--out", "zoo:mine"], "zoo:mine: nothing is written to the zoo"),
        (["certify", "zoo:parity"], "zoo:parity: is proven already: add --check to verify it"),
        (["train", "parity", "--out", "zoo:parity"], "zoo:parity: nothing is written to the zoo"),
        (["train", "parity", "--out", "zoo:mine"], "zoo:mine: nothing is written to the zoo"),
        (["train", "--resume", "--out", "zoo:parity"], "zoo:parity: nothing is written to the zoo"),
        (["train", "parity", "--resume", "--out", "zoo:new"], "zoo:new: nothing is written to the"),
        (["learn", "parity", "--out", "zoo:mine"], "zoo:mine: nothing is written to the zoo"),
    ],
)
def test_what_the_zoo_refuses(
    argv: list[str], sentence: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"csprop {argv[0]}: {sentence}" in refused(argv, here, capsys)


def test_nothing_is_resumed_in_the_zoo(here: Path) -> None:
    with pytest.raises(csprop.errors.InputError, match="zoo:parity: nothing is written to the zoo"):
        csprop.train("parity", out="zoo:parity", resume=True)
    assert not [*here.iterdir()]


@pytest.mark.parametrize("options", [[], ["--as-trained"]])
def test_predict(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("0110\n1\n"))
    assert main(["predict", "zoo:parity", *options]) == 0
    said = capsys.readouterr()
    assert said.out == "even\nodd\n"
    announced = "zoo:parity: proven for all lengths; the locked model answers\n"
    assert said.err == ("" if options else announced)


def test_eval_automaton_and_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "zoo:parity", "--lengths", "16,999", "--json"]) == 0
    found = document(capsys)
    assert (found["run"], found["locked"]) == ("zoo:parity", True)
    assert [score["wrong"] for score in found["scores"]] == [0, 0]
    assert main(["automaton", "zoo:parity", "--json"]) == 0
    assert document(capsys)["states"] == 2
    assert main(["certify", "zoo:parity", "zoo:anbn", "--check", "--json"]) == 0
    assert [each["run"] for each in document(capsys)] == ["zoo:parity", "zoo:anbn"]


def test_pages(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "zoo:parity", "zoo:nested-3", "--out", "page.html"]) == 0
    page = (here / "page.html").read_text()
    assert "zoo:parity" in page
    assert "zoo:nested-3" in page
    capsys.readouterr()
    assert main(["explore", "zoo:parity", "--no-open", "--json"]) == 0
    assert document(capsys)["runs"] == ["zoo:parity"]


def test_export(here: Path) -> None:
    """In a process of its own: what checks shapes in tests is not made for symbols in their place."""
    pytest.importorskip("onnxscript")
    command = [sys.executable, "-m", "csprop", "export", "zoo:parity", "model.onnx"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("zoo:parity: written to model.onnx\n")
    assert (here / "model.onnx").stat().st_size > 1000
