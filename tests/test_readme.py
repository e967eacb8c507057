"""The README: its commands work as typed, in their order, and its Python runs."""

import io
import re
import shlex
from pathlib import Path

import pytest

from csprop.cli.main import main

README = (Path(__file__).parents[1] / "README.md").read_text()
COMMANDS = re.findall(r"^    (csprop .*?)(?:  #.*)?$", README, flags=re.MULTILINE)
INLINE = re.findall(r"`(csprop (?:predict|automaton) .*?)`", README)


def test_the_commands_of_the_readme_do_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [shlex.split(command)[1] for command in COMMANDS] == ["example", "learn"]
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS:
        assert main(shlex.split(command)[1:]) == 0
    said = capsys.readouterr().out
    (shown,) = re.findall(r"<!-- shown: learn -->\n\n(.*?)\n\n<!--", README, flags=re.DOTALL)
    for part in shown.split(" …\n    "):
        assert "\n".join(line.removeprefix("    ") for line in part.splitlines()) in said
    (row,) = re.findall(r"`(\{.*\})`", README)
    assert row in Path("events.jsonl").read_text().splitlines()
    assert len(INLINE) == 2
    for command in INLINE:
        monkeypatch.setattr("sys.stdin", io.StringIO("fail fail fail ok\n"))
        assert main(shlex.split(command)[1:]) == 0
    said = capsys.readouterr().out
    assert said.startswith("locked\n")
    assert "static const" in said


def test_the_python_of_the_readme_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names: dict = {}
    exec(code, names)
    assert len(names["learned"].suspects) == 8
    assert names["y"].shape == (8, 100, 32)
