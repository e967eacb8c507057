"""What help says, on terminals of several widths."""

import re
import shlex
from pathlib import Path

import pytest

from csprop.cli import train
from csprop.cli.main import GROUPS, VERBS, load_command, main, parse
from csprop.cli.options import options

ASKED = [[verb, "--help"] for verb in VERBS] + [["train", "--help-all"], ["train", "mod3", "-h"]]


def told(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    try:
        code = main(argv)
    except SystemExit as stop:
        code = stop.code
    assert not code
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("argv", ASKED, ids=" ".join)
def test_help_fits_the_terminal_and_80_columns(
    argv: list[str], columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    text = told(argv, capsys)
    assert max(map(len, text.splitlines())) <= min(columns, 80)
    assert text.startswith(f"usage: csprop {argv[0]}")
    assert "`" not in text
    assert not re.search(r"\(default: *(None)?\)|\bINT\b|\bFLOAT\b|\w=['\"]", " ".join(text.split()))


@pytest.mark.parametrize("verb", VERBS)
def test_the_examples_of_help_are_understood(
    verb: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = told([verb, "--help"], capsys).partition("\nExamples:\n")[2].splitlines()
    commands = [line.strip() for line in lines if line.startswith("  ")]
    assert any(f"csprop {verb}" in command for command in commands)
    for command in commands:
        _, name, *argv = shlex.split(re.split(r" [<>] ", command.rpartition("| ")[2])[0])
        parse(name, load_command(name), argv)


def test_help_of_train_shows_a_dozen_options_and_help_all_shows_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    short, whole = told(["train", "--help"], capsys), told(["train", "--help-all"], capsys)
    assert "csprop train TASK [options]\n       csprop train --data FILE [options]\n" in short
    assert short.endswith("csprop train --help-all lists every option of the model and of training.\n")
    assert len(short.splitlines()) <= 60
    shown = re.findall(r"^  (--[\w-]+)", short, flags=re.MULTILINE)
    assert 10 <= len(shown) <= 15
    flags = {each.flags[0] for group in (train.Args, *train.GROUPS.values()) for each in options(group) if not each.arg.positional}
    assert flags == set(re.findall(r"^  (--[\w-]+)", whole, flags=re.MULTILINE))
    assert set(shown) < flags


def test_an_option_that_help_does_not_show_is_parsed() -> None:
    assert train.parse(["parity", "--clip-norm", "0.5"]).changes == {"clip_norm": 0.5}
    assert train.parse(["parity", "--clip_norm=0.5", "--no-skip"]).changes["skip"] is False


def test_help_shows_the_defaults_of_the_task_and_the_preset(capsys: pytest.CaptureFixture[str]) -> None:
    def epochs(*argv: str) -> str:
        (line,) = [
            each
            for each in told(["train", *argv, "--help"], capsys).splitlines()
            if "--epochs N" in each
        ]
        return line.rpartition("default: ")[2]

    assert (epochs("parity"), epochs("parenthesis"), epochs("parity", "--preset", "paper")) == (
        "100)",
        "60)",
        "300)",
    )


def test_csprop_alone_says_what_to_do_first(capsys: pytest.CaptureFixture[str]) -> None:
    text = told([], capsys)
    assert text == told(["--help"], capsys) == told(["help"], capsys)
    first = text.partition("\nStart:")[0]
    for command in ("csprop demo", "csprop learn FILE", "csprop train parity"):
        assert command in first
    for title, verbs in GROUPS.items():
        assert f"\n{title}:\n" in text
        assert all(f"\n  {verb} " in text for verb in verbs)
    assert max(map(len, text.splitlines())) <= 80


def test_help_verb_is_the_help_of_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(["help", "eval"], capsys) == told(["eval", "--help"], capsys)
    assert main(["help", "evil"]) == 2
    assert "there is no command 'evil': did you mean eval?" in capsys.readouterr().err


def test_a_terminal_shows_a_complaint_by_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["train", "zebra"]) == 2
    whole = capsys.readouterr().err
    assert whole.count("\n") == 1
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(["train", "zebra"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= 60
    assert " ".join(lines) == whole.strip()
