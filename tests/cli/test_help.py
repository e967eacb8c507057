"""What help says, on terminals of several widths."""

import re
import shlex

import pytest

from csprop.cli import train
from csprop.cli.main import GROUPS, VERBS, load_command, parse
from csprop.cli.options import options
from tests.cli.conftest import Shell

ASKED = [[verb, "--help"] for verb in VERBS] + [["train", "--help-all"], ["train", "mod3", "-h"]]


def read(shell: Shell, *argv: str) -> str:
    said = shell(*argv)
    assert said.err == ""
    return said.out


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("argv", ASKED, ids=" ".join)
def test_help_fits_the_terminal_and_80_columns(argv: list[str], columns: int, shell: Shell) -> None:
    shell.monkeypatch.setenv("COLUMNS", str(columns))
    text = read(shell, *argv)
    assert max(map(len, text.splitlines())) <= min(columns, 80)
    assert text.startswith(f"usage: csprop {argv[0]}")
    assert "\n  --json " in text
    assert "`" not in text
    assert not re.search(r"\(default: *(None)?\)|\bINT\b|\bFLOAT\b|\w=['\"]", " ".join(text.split()))


@pytest.mark.parametrize("verb", VERBS)
def test_the_examples_of_help_are_understood(verb: str, shell: Shell) -> None:
    lines = read(shell, verb, "--help").partition("\nExamples:\n")[2].splitlines()
    commands = [line.strip() for line in lines if line.startswith("  ")]
    assert any(f"csprop {verb}" in command for command in commands)
    for command in commands:
        _, name, *argv = shlex.split(re.split(r" [<>] ", command.rpartition("| ")[2])[0])
        parse(name, load_command(name), argv)


def test_help_of_train_shows_a_dozen_options_and_help_all_shows_all(shell: Shell) -> None:
    short, whole = read(shell, "train", "--help"), read(shell, "train", "--help-all")
    assert "csprop train TASK [options]\n       csprop train --data FILE [options]\n" in short
    assert short.endswith("csprop train --help-all lists every option of the model and of training.\n")
    assert len(short.splitlines()) <= 60
    shown = re.findall(r"^  (--[\w-]+)", short, flags=re.MULTILINE)
    assert 10 <= len(shown) <= 15
    known = [each for group in (train.Args, *train.GROUPS.values()) for each in options(group)]
    flags = {each.flags[0] for each in known if not each.arg.positional}
    assert flags == set(re.findall(r"^  (--[\w-]+)", whole, flags=re.MULTILINE))
    assert set(shown) < flags


def test_options_of_a_group_are_parsed() -> None:
    assert train.parse(["parity", "--clip-norm", "0.5"]).changes == {"clip_norm": 0.5}
    changes = train.parse(["parity", "--clip_norm=0.5", "--no-skip", "--order", "3"]).changes
    assert changes == {"clip_norm": 0.5, "skip": False, "order": 3}


@pytest.mark.parametrize(
    ("argv", "epochs"),
    [("parity", 100), ("parenthesis", 60), ("parity --preset paper", 300), ("--data x.csv", 40)],
)
def test_help_shows_the_defaults_of_the_task_and_the_preset(
    argv: str, epochs: int, shell: Shell
) -> None:
    lines = read(shell, "train", *argv.split(), "--help").splitlines()
    (line,) = [each for each in lines if "--epochs N" in each]
    assert line.endswith(f"(default: {epochs})")


def test_csprop_alone_says_what_to_do_first(shell: Shell) -> None:
    text = read(shell)
    assert text == read(shell, "--help") == read(shell, "help")
    first = text.partition("\nStart:")[0]
    for command in ("csprop demo", "csprop learn FILE", "csprop train parity"):
        assert command in first
    for title, verbs in GROUPS.items():
        assert f"\n{title}:\n" in text
        assert all(f"\n  {verb} " in text for verb in verbs)
    assert max(map(len, text.splitlines())) <= 80


def test_help_verb_is_the_help_of_the_verb(shell: Shell) -> None:
    assert read(shell, "help", "eval") == read(shell, "eval", "--help")
    said = shell.refuse("help", "evil")
    assert "there is no command 'evil': did you mean eval?" in said


def test_a_terminal_shows_a_complaint_by_words(shell: Shell) -> None:
    whole = shell.refuse("train", "zebra")
    shell.monkeypatch.setenv("COLUMNS", "60")
    shell.monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    lines = shell("train", "zebra", code=2).err.splitlines()
    assert max(map(len, lines)) <= 60
    assert " ".join(lines) == whole.strip()
