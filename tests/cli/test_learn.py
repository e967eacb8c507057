"""`csprop learn` as typed."""

from pathlib import Path

import pytest

import csprop
from tests.cli.conftest import Shell

EVENTS = str(csprop.example("events.jsonl"))


def test_a_file_with_wrong_labels(shell: Shell) -> None:
    shown = shell("learn", EVENTS, "--out", "run")
    assert "a machine of 5 states, which agrees with 792 of 800 rows" in " ".join(shown.out.split())
    assert "sequences that occur with different labels: 3, in 51 rows" in shown.err
    assert len(shown.out.splitlines()) < 45
    assert max(map(len, shown.out.splitlines())) <= 80
    for verb in (["automaton", "run"], ["certify", "run", "--check"], ["eval", "run"]):
        shell(*verb)
    assert "already holds a run" in shell("learn", EVENTS, "--out", "run", code=2).err


def test_json_is_one_document(shell: Shell) -> None:
    found = shell.json("learn", "tomita-4", "--samples", "400")
    assert (found["states"], found["proven"], found["suspects"]) == (4, True, [])
    assert found["automaton"]["format"] == "csprop automaton 1"
    assert found["candidates"][0]["method"] == "merging"


def test_no_machine_is_exit_code_1_and_nothing_is_written(shell: Shell) -> None:
    lines = [f"{n:010b},{'ab'[(n * 7919 >> 4) % 2]}" for n in range(60, 1000, 37)]
    Path("coin.csv").write_text("sequence,label\n" + "\n".join(lines) + "\n")
    said = shell.words("learn", "coin.csv", "--out", "r", code=1)
    assert "no machine is clearly better" in said
    assert not Path("r").exists()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "FILE|TASK is missing: write csprop learn FILE|TASK"),
        (["no.jsonl"], "no.jsonl"),
        (["paritty"], "parity"),
        ([EVENTS, "--length", "5"], "--length 5: "),
        (["parity", "--seed", "-1"], "seed"),
        (["parity", "--samples", "1"], "cannot be split"),
    ],
)
def test_mistakes_get_a_sentence(argv: list[str], words: str, shell: Shell) -> None:
    assert words in shell("learn", *argv, code=2).err.splitlines()[-1]
