"""The commands that the bench times."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from csprop.cli.main import load_command, parse
from csprop_lab.bench import commands


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that would have been run; a file that is read is there."""
    asked: list[list[str]] = []

    def remember(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        assert all(Path(each).exists() for each in command if each.endswith(".jsonl"))
        return subprocess.CompletedProcess(command, 2 if "broken" in command else 0, "", "a reason")

    monkeypatch.setattr(subprocess, "run", remember)
    return asked


def test_each_takes_its_turn_in_a_folder_of_its_own(run: list[list[str]]) -> None:
    found = commands.times(2)
    assert {name: len(each) for name, each in found.items()} == dict.fromkeys(found, 2)
    assert next(iter(found)) == 'python -c "import torch"'
    first, second = run[: len(found)], run[len(found) :]
    assert [command[:3] for command in first] == [command[:3] for command in second]
    assert all(command[0] == sys.executable for command in run)
    folders = {Path(each).parent for command in run for each in command if each.endswith("/run")}
    assert len(folders) == 2
    assert not any(folder.exists() for folder in folders)


def test_a_user_could_type_them(run: list[list[str]]) -> None:
    commands.times(1)
    for command in run[2:]:
        verb, *arguments = command[3:]
        assert parse(verb, load_command(verb), arguments)
    typed = [name.split(",")[0].split()[1] for name in commands.COMMANDS]
    assert [command[3] for command in run[1:]] == typed


def test_a_command_that_fails_is_no_time(run: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(commands.COMMANDS, "csprop broken", "broken")
    with pytest.raises(RuntimeError, match="broken: a reason"):
        commands.times(1)


def test_the_rows_are_right(tmp_path: Path) -> None:
    commands._write_rows(tmp_path / "rows.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == 300
    for row in rows:
        assert row["label"] == str(row["sequence"].split("r")[-1].count("1") % 3)
