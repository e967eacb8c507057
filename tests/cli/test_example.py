"""`csprop example` and `csprop learn` as typed."""

import os
from pathlib import Path

import pytest

import csprop
from csprop.data.shipped import EXAMPLES
from tests.cli.conftest import Shell


def test_without_a_name_the_files_are_listed(shell: Shell) -> None:
    lines = shell("example").out.splitlines()
    assert [line.split()[0] for line in lines[: len(EXAMPLES)]] == list(EXAMPLES)
    assert max(map(len, lines)) <= 80
    assert [each["name"] for each in shell.json("example")["examples"]] == list(EXAMPLES)
    assert list(shell.folder.iterdir()) == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_file_is_written_and_the_next_command_reads_it(name: str, shell: Shell) -> None:
    said = shell("example", name).out
    assert Path(name).read_bytes() == csprop.example(name).read_bytes()
    (command,) = [line for line in said.splitlines() if line.startswith("  csprop")]
    _, verb, *argv = command.split()
    assert name in argv
    shell(verb, *argv)


def test_another_file_of_the_name_is_kept(shell: Shell) -> None:
    for options in ([], ["--json"]):  # the same file: nothing is lost
        shell("example", "door.csv", *options)
    Path("door.csv").write_text("mine")
    said = shell.refuse("example", "door.csv")
    assert (
        said == "csprop example: door.csv: exists and is another file: write --out with another name\n"
    )
    assert Path("door.csv").read_text() == "mine"
    assert shell.json("example", "door.csv", "--out", "other.csv")["file"] == "other.csv"
    assert Path("other.csv").read_bytes() == csprop.example("door.csv").read_bytes()


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["door.csv", "--out", "none/door.csv"], "--out none/door.csv: there is no directory none"),
        (["door.csv", "--out", "."], "--out .: is a directory: write --out door.csv"),
        (["--out", "door.csv"], "--out door.csv: write the name of an example before it"),
    ],
)
def test_mistakes_are_one_sentence(argv: list[str], sentence: str, shell: Shell) -> None:
    assert sentence in shell.refuse("example", *argv)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name here")
def test_what_is_no_file_is_not_read(shell: Shell) -> None:
    os.mkfifo("pipe")
    for out in ("pipe", os.devnull):
        said = shell.refuse("example", "door.csv", "--out", out)
        assert "exists and is another file" in said


# Learning.


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
