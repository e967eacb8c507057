"""Every option of every command: what is said of a value that it cannot have."""

import json
import re
from pathlib import Path

import pytest

import csprop
from csprop.cli.main import LABORATORY, VERBS, load_command
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
