"""Options with a value that they cannot have, of every command; help, on several terminals."""

import json
import re
import shlex
from pathlib import Path

import pytest

import csprop
from csprop.cli import train
from csprop.cli.main import GROUPS, LABORATORY, VERBS, load_command, parse
from csprop.cli.options import Option, options
from tests.cli.conftest import Shell
from tests.helpers.zoo import unpack

WORDS = {
    "train": ["parity"],
    "learn": ["parity"],
    "example": ["events.jsonl"],
    "compile": [str(csprop.example("machine.json")), "--out", "new"],
    "report": ["{run}", "--out", "page.html"],
    "export": ["{run}", "model.onnx"],
    "reproduce": ["--quick"],
    "compare": ["--quick"],
    "bench": ["--quick"],
    "eval": ["{run}", "--as-trained"],
    **{verb: ["{run}"] for verb in ("predict", "certify", "automaton", "explore")},
}
"""What each command needs beside the option; nothing, if it is not named."""
BAD = {
    int: ["x", "1.5", "-1", "9" * 20, "9" * 5000, "nan", "inf", ""],
    float: ["x", "-1", "1e999", "nan", "inf", "-inf", ""],
    Path: [""],
    str: [""],
}
LISTS = {"seeds", "lengths", "only", "models", "tasks", "protocol"}
"""Options whose value is a list with commas, or a choice."""


def valued(verb: str) -> list[Option]:
    """The options of a command that take a value."""
    module = load_command(verb)
    groups = [module.Args, *getattr(module, "GROUPS", {}).values()]
    known = [each for group in groups for each in options(group)]
    return [each for each in known if each.kind is not bool and not each.arg.positional]


CASES = [
    (verb, option, value)
    for verb in (*VERBS, *LABORATORY)
    for option in valued(verb)
    for value in (
        ["x", "-1", "1,,2", ""] if option.choices or option.name in LISTS else BAD[option.kind]
    )
    if not (verb == "compare" and option.name == "seeds") or value != "1,,2"
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(unpack("parity", tmp_path_factory.mktemp("runs")))


@pytest.mark.parametrize(
    ("verb", "option", "value"),
    [pytest.param(*case, id=f"{case[0]} {case[1].flags[0]} {case[2][:24]}") for case in CASES],
)
def test_a_value_that_does_not_fit_is_refused_by_the_name_of_its_option(
    verb: str, option: Option, value: str, run: str, shell: Shell
) -> None:
    words = [word.replace("{run}", run) for word in WORDS.get(verb, [])]
    said = shell.refuse(verb, *words, option.flags[0], value)
    assert said.startswith(f"csprop {verb}: ")
    assert re.search(rf"{option.flags[0]}[ :]", said)


def test_there_are_many_such_options() -> None:
    assert len({(verb, option.name) for verb, option, _ in CASES}) > 60


def test_after_two_hyphens_nothing_is_an_option(shell: Shell) -> None:
    assert json.loads(shell("zoo", "--json", "--", "parity").out)["name"] == "parity"
    assert "the zoo has no run '--json'" in shell.refuse("zoo", "--", "--json")


# Help.


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
