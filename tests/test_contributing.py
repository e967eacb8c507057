"""The recipes of CONTRIBUTING.md work as they are written."""

import json
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import csprop
from csprop.cli.main import main
from csprop.tasks.base import every_sequence
from csprop_lab.study.table import FULL

RECIPES = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()


def read_code(heading: str, language: str = "python", number: int = 0) -> str:
    """Return a block of code below a heading, by default the first."""
    section = RECIPES.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks = re.findall(rf"^( *)```{language}\n(.*?)^\1```$", section, re.DOTALL | re.MULTILINE)
    return textwrap.dedent(blocks[number][1])


def run_code(heading: str, number: int = 0) -> dict[str, Any]:
    """Run a block of Python, and return its names."""
    names: dict[str, Any] = {}
    exec(read_code(heading, number=number), names)
    return names


def test_a_cell_of_ones_own_learns_parity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flip.py").write_text(read_code("A cell"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run_code("A cell", 1)["run"].config.model.to_json()["cells"] == [{"kind": "flip:Flip"}]


def test_a_task_is_a_truth_and_a_machine() -> None:
    task = run_code("A task")["Lamp"]()
    for tokens in every_sequence(3, 6):
        assert task.labels(tokens[None])[0, -1] == task.truth(tokens.tolist())
    assert len(task.machine) == 2
    assert csprop.train(task, samples=200, epochs=1, width=4).config.task["name"] == "lamp"


def test_an_installed_package_adds_a_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "sizes", raising=False)
    (tmp_path / "sizes.py").write_text(read_code("A verb"))
    package = tmp_path / "sizes-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: sizes\nVersion: 1.0\n")
    (line,) = re.findall(r"^size = \"(\w+)\"$", read_code("A verb", "toml"), re.MULTILINE)
    (package / "entry_points.txt").write_text(f"[csprop.commands]\nsize = {line}\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["size", "zoo:parity", "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)["parameters"]
    model = csprop.load("zoo:parity").model
    assert counts == {name: value.numel() for name, value in model.named_parameters()}
    with pytest.raises(SystemExit, match="0"):
        main(["size", "--help"])
    assert "csprop size runs/parity" in capsys.readouterr().out


def test_a_table_of_the_study_asks_for_its_jobs() -> None:
    jobs = run_code("A table")["Widths"]().jobs(FULL)
    assert {variant for variant, _ in jobs} == {f"width {width}" for width in (8, 16, 32, 64)}
