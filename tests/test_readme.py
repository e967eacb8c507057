"""Every command of the README is one that the program takes; its Python runs."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

import csprop
from csprop.cli.main import main
from csprop.errors import InputError

README = (Path(__file__).parents[1] / "README.md").read_text()
LINES = re.findall(r"^    (?:echo \S+ \| )?(csprop .*?)(?:  #.*)?$", README, flags=re.MULTILINE)
COMMANDS = [command for line in LINES for command in line.split(" && ")]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_is_understood(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, verb, *argv = shlex.split(command)
    module = import_module(f"csprop.cli.{verb}")
    if "--resume" in argv:
        with pytest.raises(InputError, match="runs/events: is not a run"):
            module.parse(argv)
    else:
        module.parse(argv)


def test_the_readme_has_a_tour() -> None:
    assert len(COMMANDS) >= 9


def test_what_learn_is_shown_to_say_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = re.findall(r"<!-- shown: learn -->\n\n(.*?)\n\n<!--", README, flags=re.DOTALL)
    assert main(["learn", str(csprop.example("events.jsonl")), "--out", str(tmp_path / "events")]) == 0
    said = capsys.readouterr().out
    for part in shown.split("\n    …\n"):
        assert "\n".join(line.removeprefix("    ") for line in part.splitlines()) in said


def test_the_python_of_the_readme_runs() -> None:
    code, layer = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(layer, {})
    *statements, last = code.strip().splitlines()
    names: dict = {}
    exec("\n".join(statements), names)
    assert eval(last, names) == "odd"
