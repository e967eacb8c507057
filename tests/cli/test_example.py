"""`csprop example` as typed."""

import json
import os
from pathlib import Path

import pytest

import csprop
from csprop.cli.main import main
from csprop.data.shipped import EXAMPLES


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_a_name_the_files_are_listed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["example"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[: len(EXAMPLES)]] == list(EXAMPLES)
    assert max(map(len, lines)) <= 80
    assert main(["example", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["examples"]
    assert [each["name"] for each in listed] == list(EXAMPLES)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_file_is_written_and_the_next_command_reads_it(
    name: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["example", name]) == 0
    assert (here / name).read_bytes() == csprop.example(name).read_bytes()
    (command,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  csprop")]
    verb, *argv = command.split()[1:]
    assert name in argv
    assert main([verb, *argv]) == 0


def test_another_file_of_the_name_is_kept(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["example", "door.csv"]) == 0
    assert main(["example", "door.csv", "--json"]) == 0  # the same file: nothing is lost
    (here / "door.csv").write_text("mine")
    capsys.readouterr()
    assert main(["example", "door.csv"]) == 2
    said = capsys.readouterr().err
    assert (
        said == "csprop example: door.csv: exists and is another file: write --out with another name\n"
    )
    assert (here / "door.csv").read_text() == "mine"
    assert main(["example", "door.csv", "--out", "other.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["file"] == "other.csv"
    assert (here / "other.csv").read_bytes() == csprop.example("door.csv").read_bytes()


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["event.jsonl"], "there is no example 'event.jsonl': did you mean events.jsonl?"),
        (["door.csv", "--out", "none/door.csv"], "--out none/door.csv: there is no directory none"),
        (["door.csv", "--out", "."], "--out .: is a directory: write --out door.csv"),
        (["--out", "door.csv"], "--out door.csv: write the name of an example before it"),
    ],
)
def test_mistakes_are_one_sentence(
    argv: list[str], sentence: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["example", *argv]) == 2
    assert sentence in capsys.readouterr().err
    assert list(here.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name here")
def test_what_is_no_file_is_not_read(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(here / "pipe")
    for out in ("pipe", os.devnull):
        assert main(["example", "door.csv", "--out", out]) == 2
        assert "exists and is another file" in capsys.readouterr().err
