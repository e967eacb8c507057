"""The verbs that certify a run and hand it over, and those that use what was certified."""

import hashlib
import io
import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import csprop
from csprop.automata.automaton import Automaton
from csprop.automata.machine import Machine
from csprop.cli.main import main
from csprop.runs.machines import from_machine
from csprop.training.checkpoint import RunFolder

TRAINING = ["--samples", "1000", "--width", "8", "--epochs", "8", "--hold", "0"]
STRINGS = ["".join(s) for n in range(1, 5) for s in itertools.product("01.", repeat=n)]
GCC = shutil.which("gcc")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certified run: flip-flop, which small models lock on at once."""
    out = tmp_path_factory.mktemp("runs") / "flip"
    assert main(["train", "flip-flop", *TRAINING, "--out", str(out)]) == 0
    assert main(["certify", str(out)]) == 0
    return out


@pytest.fixture
def certified(original: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return shutil.copytree(original, tmp_path / "flip")


@pytest.fixture
def plain(certified: Path) -> Path:
    """The same before it was certified."""
    for name in ("certificate.json", "locked.safetensors"):
        (certified / name).unlink()
    return certified


def refused(argv: list[Any], capsys: pytest.CaptureFixture[str], code: int = 2) -> str:
    """Nothing on stdout, one sentence on stderr."""
    capsys.readouterr()
    assert main([*map(str, argv)]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("csprop")
    return said.err


def predicted(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *options: str
) -> list[str]:
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(STRINGS) + "\n"))
    capsys.readouterr()
    assert main(["predict", str(run), *options]) == 0
    return capsys.readouterr().out.split()


def test_certify_says_and_writes_what_it_proved(
    plain: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts = []
    for _ in range(2):  # once more is fine
        capsys.readouterr()
        assert main(["certify", str(plain)]) == 0
        said = capsys.readouterr().out
        assert said.startswith(f"{plain}: proven for all lengths\n")
        assert f"csprop certify {plain} --check" in said
        verdicts.append(json.loads((plain / "certificate.json").read_text())["verdict"])
        manifest = json.loads((plain / "manifest.json").read_text())
        for name in ("certificate.json", "locked.safetensors"):
            assert manifest[name] == hashlib.sha256((plain / name).read_bytes()).hexdigest()
    assert verdicts == ["proven for all lengths"] * 2
    assert main(["certify", str(plain), "--check"]) == 0
    assert capsys.readouterr().out.startswith(f"{plain}: the certificate holds\n")


def test_json_is_one_document(certified: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["certify", str(certified), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["proven"] is True
    assert main(["certify", str(certified), "--check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"] == str(certified)
    assert main(["certify", str(certified), str(certified), "--check", "--json"]) == 0
    assert [each["proven"] for each in json.loads(capsys.readouterr().out)] == [True, True]
    assert main(["automaton", str(certified), "--format", "c", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["states"], found["format"]) == (2, "c")
    assert found["picture"] is None
    assert "int main" in found["source"]
    assert main(["eval", str(certified), "--lengths", "8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["locked"] is True
    assert main(["eval", str(certified), "--lengths", "8", "--json", "--as-trained"]) == 0
    assert json.loads(capsys.readouterr().out)["locked"] is False


def test_two_runs_are_a_table(
    certified: Path, original: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    capsys.readouterr()
    assert main(["certify", str(certified), str(original)]) == 0
    lines = capsys.readouterr().out.splitlines()
    for run in (certified, original):
        (row,) = (line for line in lines if f" {run} " in line)
        assert "proven for all lengths" in row


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda text: "{", "malformed"),
        (lambda text: "{}", "it is malformed"),
        (lambda text: text.replace('"pairs"', '"peers"'), "'peers' is not a field"),
        (lambda text: text.replace('"flip-flop"', '"parity"'), "it is about another task"),
    ],
)
def test_a_spoilt_certificate_is_exit_1(
    certified: Path, capsys: pytest.CaptureFixture[str], change: Any, complaint: str
) -> None:
    path = certified / "certificate.json"
    path.write_text(change(path.read_text()))
    err = refused(["certify", certified, "--check"], capsys, code=1)
    assert err.startswith(f"csprop certify: {path} does not hold: ")
    assert complaint in err


@pytest.mark.parametrize("content", [None, b"nothing"])
def test_spoilt_weights_are_exit_1(
    certified: Path, capsys: pytest.CaptureFixture[str], content: bytes | None
) -> None:
    path = certified / "locked.safetensors"
    path.unlink() if content is None else path.write_bytes(content)
    assert "does not hold" in refused(["certify", certified, "--check"], capsys, code=1)


def test_one_length(certified: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["certify", str(certified), "--length", "5"]) == 0
    assert "right on every input of length 5" in capsys.readouterr().out
    assert main(["certify", str(certified), "--check"]) == 0, "the proof was lost"
    for name in ("locked.safetensors", "certificate.json"):
        (certified / name).unlink()
    assert main(["certify", str(certified), "--length", "5"]) == 0
    err = refused(["certify", certified, "--check"], capsys, code=1)
    assert "it covers one length by trial" in err


def test_a_proof_of_another_version_is_kept_and_that_is_said(
    certified: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads((certified / "certificate.json").read_text())
    RunFolder(certified).write_json("certificate.json", document | {"format": 1})
    capsys.readouterr()
    assert main(["certify", str(certified), "--length", "5"]) == 0
    said = capsys.readouterr()
    assert "right on every input of length 5" in said.out
    assert "the existing certificate is kept; this result is not saved" in said.err
    assert json.loads((certified / "certificate.json").read_text())["format"] == 1


@pytest.mark.parametrize(
    ("task", "next_step"),
    [("parity", "csprop train parity --preset router --out {}-router"),
     ("parity", "csprop learn parity --out {}-learned"),
     ("parenthesis", "csprop certify {} --length 16")],
)  # fmt: skip
def test_what_training_did_not_teach_is_exit_1(
    task: str, next_step: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    options = ["--samples", "60", "--width", "4", "--length", "6", "--epochs", "1"]
    options += ["--preset", "paper", "--rotate", "none"]
    assert main(["train", task, *options, "--out", run]) == 0
    capsys.readouterr()
    assert main(["certify", run, "--rounds", "0"]) == 1
    said = capsys.readouterr().out
    assert said.startswith(f"{run}: not proven\n")
    assert "Nothing is proven" in said
    assert next_step.format(run) in said
    assert "seed" not in said
    assert "The model has not learned" in said
    assert "--rounds" not in said
    assert not (tmp_path / "run" / "locked.safetensors").exists()
    assert "it claims no proof" in refused(["certify", run, "--check"], capsys, code=1)
    assert "is not certified" in refused(["automaton", run], capsys)


def test_a_router_that_saw_too_little_is_told_to_see_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")  # of length 4, only 1010 is not in Tomita 7
    assert main(["train", "tomita-7", "--length", "4", "--samples", "400", "--out", run]) == 0
    assert main(["certify", run]) == 1
    said = capsys.readouterr().out
    assert f"csprop train tomita-7 --samples 800 --out {run}-more" in said
    assert "--rounds" not in said  # a router is not trained further


def test_what_cannot_be_certified_is_one_sentence(
    certified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "nowhere: is not a run" in refused(["certify", "nowhere"], capsys)
    assert "nowhere: is not a run" in refused(["certify", "nowhere", "--check"], capsys)
    assert "--rounds -1: write 0 to 1000" in refused(["certify", certified, "--rounds", "-1"], capsys)
    assert "--depth 0: write 1 to 1000" in refused(["certify", certified, "--depth", "0"], capsys)
    assert "leave out the depth" in refused(["certify", certified, "--depth", "3"], capsys)
    assert "leave out --depth" in refused(
        ["certify", certified, "--length", "3", "--depth", "3"], capsys
    )
    assert "leave out --length and --depth" in refused(
        ["certify", certified, "--check", "--length", "3"], capsys
    )
    (certified / "model.safetensors").unlink()  # as if it had not finished an epoch
    assert "has no model.safetensors" in refused(["certify", certified], capsys)


def test_a_data_file_that_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, run = tmp_path / "ends.csv", tmp_path / "run"
    words = ["".join(s) for n in range(1, 6) for s in itertools.product("ab", repeat=n)]
    data.write_text("".join(f"{word},{'yes' if word[-1] == 'a' else 'no'}\n" for word in words))
    options = ["--preset", "rotor", "--width", "8", "--epochs", "10", "--out", str(run)]
    assert main(["train", "--data", str(data), *options]) == 0
    assert main(["certify", str(run)]) == 0
    assert main(["certify", str(run), "--check"]) == 0
    assert "agree with all 62 rows of ends.csv" in " ".join(capsys.readouterr().out.split())
    data.unlink()
    assert "ends.csv: there is no such file" in refused(["certify", run], capsys)
    assert "ends.csv: there is no such file" in refused(["certify", run, "--check"], capsys)


def test_a_data_file_with_wrong_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, run = tmp_path / "ends.csv", str(tmp_path / "run")
    words = ["".join(s) for n in range(1, 7) for s in itertools.product("ab", repeat=n)]
    right = [(each, each[-1] == "a") for each in words]
    lines = [f"{each},{'yes' if yes != (row in (30, 77)) else 'no'}\n" for row, (each, yes) in
             enumerate(right, start=1)]  # fmt: skip
    data.write_text("".join(lines))
    options = ["--preset", "rotor", "--width", "8", "--epochs", "10", "--out", run]
    assert main(["train", "--data", str(data), *options]) == 0
    capsys.readouterr()
    assert main(["certify", run]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{run}: agrees with 124 of 126 rows\n")
    assert "disagree   rows 30, 77\n" in said
    assert "Next, one of" not in said
    assert main(["certify", run, "--check"]) == 0
    assert "agree with 124 of 126 rows of ends.csv" in " ".join(capsys.readouterr().out.split())
    assert main(["automaton", run]) == 0
    assert capsys.readouterr().err == f"{run}: agrees with 124 of 126 rows; 2 states\n"


def test_a_machine_that_disagrees_with_many_rows_is_said_to_be_poor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It knows the last token, and not how the sequence began."""
    data, run = tmp_path / "some.csv", str(tmp_path / "run")
    words = ["".join(s) for n in range(1, 7) for s in itertools.product("ab", repeat=n)]
    data.write_text("".join(f"{w},{'yes' if w[-1] == 'a' or w[:2] == 'bb' else 'no'}\n" for w in words))
    task = csprop.tasks.from_file(data)
    yes, no = (task.classes.index(name) for name in ("yes", "no"))
    from_machine(task, Machine(transitions=((0, 1), (0, 1)), outputs=(yes, no)), run)
    assert main(["certify", run]) == 0
    said = capsys.readouterr().out
    assert f"csprop learn {data} --out {run}-learned" in said


def test_before_a_certificate_there_is_nothing_to_hand_over(
    plain: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    todo = f"`csprop certify {plain}`"
    assert todo in refused(["automaton", plain], capsys)
    assert todo in refused(["certify", plain, "--check"], capsys)


@pytest.mark.parametrize("format", ["json", "dot", "python", "c"])
def test_every_format_says_what_predict_says(
    certified: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    format: str,
) -> None:
    want = predicted(certified, capsys, monkeypatch)
    assert main(["automaton", str(certified), "--format", format]) == 0
    said = capsys.readouterr()
    assert said.err == f"{certified}: proven for all lengths; 2 states\n"
    assert not list(certified.glob("*.png")), "nobody asked for a picture"
    if format == "json":
        machine = Automaton.from_json(json.loads(said.out))
        tokens = [[machine.vocab.index(symbol) for symbol in each] for each in STRINGS]
        assert [machine.classes[machine.run(each)[-1]] for each in tokens] == want
        return
    if format == "dot":
        assert said.out.startswith("digraph")
        assert said.out.rstrip().endswith("}")
        assert said.out.count("->") >= 2
        return
    source = tmp_path / ("machine.py" if format == "python" else "machine.c")
    source.write_text(said.out)
    command = [sys.executable, str(source)]
    if format == "c":
        if GCC is None:
            pytest.skip("there is no C compiler")
        command = [str(tmp_path / "machine")]
        subprocess.run([GCC, "-std=c99", "-Wall", "-Werror", source, "-o", *command], check=True)
    text = "\n".join(STRINGS) + "\n"
    result = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    assert result.stdout.split() == want, result.stderr


def test_pictures(certified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "machine.svg"
    assert main(["automaton", str(certified), "--picture", str(picture)]) == 0
    assert "<svg" in picture.read_text()
    assert f"drawn in {picture}" in capsys.readouterr().err
    assert main(["automaton", str(certified), "--picture", str(tmp_path / "machine.png")]) == 0
    assert (tmp_path / "machine.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    asked = ["automaton", certified, "--picture"]
    assert "ends in .png, .svg or .pdf" in refused([*asked, tmp_path / "machine.xyz"], capsys)
    assert "cannot be written" in refused([*asked, tmp_path / "none" / "machine.png"], capsys)


def test_eval_and_predict_use_the_locked_model(
    certified: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    notice = f"{certified}: proven for all lengths; the locked model answers"
    for verb in (["eval", str(certified), "--lengths", "8"], ["predict", str(certified)]):
        for options in ([], ["--as-trained"]):
            monkeypatch.setattr(sys, "stdin", io.StringIO("01.\n"))
            capsys.readouterr()
            assert main([*verb, *options]) == 0
            assert (notice in capsys.readouterr().err) == (not options)
    trained = predicted(certified, capsys, monkeypatch, "--as-trained")
    assert predicted(certified, capsys, monkeypatch) == trained


def test_more_training_ends_a_certificate(certified: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--resume", "--out", str(certified)]) == 0  # nothing left to do
    assert main(["certify", str(certified), "--check"]) == 0
    assert main(["train", "--resume", "--out", str(certified), "--epochs", "9"]) == 0
    manifest = json.loads((certified / "manifest.json").read_text())
    for name in ("certificate.json", "locked.safetensors"):
        assert not (certified / name).exists()
        assert name not in manifest
    assert "first" in refused(["certify", certified, "--check"], capsys)
