"""The guide docs/exact.md: its commands are understood, its Python runs, its numbers are the code's."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from csprop.exact import certify, lock

DOCS = Path(__file__).parents[1] / "docs"
GUIDE = (DOCS / "exact.md").read_text()
COMMANDS = re.findall(r"^    (csprop .*?)(?:  +#.*)?$", GUIDE, flags=re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_guide_is_understood(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, verb, *argv = shlex.split(command)
    import_module(f"csprop.cli.{verb}").parse(argv)


def test_the_guide_has_commands() -> None:
    assert len(COMMANDS) >= 10


def test_the_python_of_the_guide_runs() -> None:
    snippets = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
    assert len(snippets) == 2
    names: dict = {}
    for code in snippets:  # the second goes on from the first
        exec(code, names)


@pytest.mark.parametrize("name", ["RADII", "RATIO", "DOUBT", "LEAD", "ROUNDS"])
def test_a_number_of_the_guide_is_that_of_the_code(name: str) -> None:
    row = re.search(rf"^\| `{name}` \| ([^|]*) \|", GUIDE, flags=re.MULTILINE)
    assert row, name
    value = getattr(certify, name) if name == "ROUNDS" else getattr(lock, name)
    values = value if isinstance(value, tuple) else (value,)
    assert tuple(float(each) for each in row[1].split(",")) == values


def test_the_pictures_are_there() -> None:
    shown = re.findall(r"!\[.*?\]\((\S+?)\)", GUIDE)
    assert shown
    for name in shown:
        assert (DOCS / name).exists()
