"""`csprop learn` as typed."""

import json
from pathlib import Path

import pytest

import csprop
from csprop.cli.main import main

EVENTS = str(csprop.example("events.jsonl"))


def test_a_file_with_wrong_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert main(["learn", EVENTS, "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert "a machine of 5 states, which agrees with 792 of 800 rows" in " ".join(shown.out.split())
    assert "sequences that occur with different labels: 3, in 51 rows" in shown.err
    assert len(shown.out.splitlines()) < 45
    assert all(len(line) <= 80 or str(tmp_path) in line for line in shown.out.splitlines())
    for verb in (["automaton"], ["certify", "--check"], ["eval"]):
        assert main([verb[0], str(out), *verb[1:]]) == 0, verb
    capsys.readouterr()
    assert main(["learn", EVENTS, "--out", str(out)]) == 2
    assert "already holds a run" in capsys.readouterr().err


def test_json_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learn", "tomita-4", "--samples", "400", "--out", str(tmp_path / "r"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["states"], found["proven"], found["suspects"]) == (4, True, [])
    assert found["automaton"]["format"] == "csprop automaton 1"
    assert found["candidates"][0]["method"] == "merging"


def test_no_machine_is_exit_code_1_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "coin.csv"
    lines = [f"{n:010b},{'ab'[(n * 7919 >> 4) % 2]}" for n in range(60, 1000, 37)]
    path.write_text("sequence,label\n" + "\n".join(lines) + "\n")
    assert main(["learn", str(path), "--out", str(tmp_path / "r")]) == 1
    assert "no machine is clearly better" in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["learn"], "FILE|TASK is missing: write csprop learn FILE|TASK"),
        (["learn", "no.jsonl"], "no.jsonl"),
        (["learn", "paritty"], "parity"),
        (["learn", EVENTS, "--length", "5"], "has its own rows: leave it out"),
        (["learn", "parity", "--seed", "-1"], "seed"),
        (["learn", "parity", "--samples", "1"], "cannot be split"),
    ],
)
def test_mistakes_get_a_sentence(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert words in said
    assert len(said.splitlines()) == 1
