"""`csprop zoo`, and zoo:NAME wherever a command reads a run."""

import re
from pathlib import Path

import pytest

import csprop
from csprop.training.checkpoint import FILES, MANIFEST, RunFolder
from csprop.zoo.archive import index
from tests.cli.conftest import Shell


def test_the_list(shell: Shell) -> None:
    said = shell("zoo").out
    assert max(map(len, said.splitlines())) <= 80
    for entry in index():
        line = re.search(rf"^│ {entry['name']} .*$", said, flags=re.MULTILINE)
        assert line, entry["name"]
        counters = [str(entry["counters"])] if "depths" in entry["verdict"] else []
        shown = [str(entry["states"]), *counters, entry["made"], entry["preset"], str(entry["seed"])]
        assert line[0].replace("│", " ").split()[1:] == shown
    assert all(task.name in said for task in csprop.tasks.catalogue())
    assert "No proof exists: neither a finite machine nor counters" in " ".join(said.split())
    found = shell.json("zoo")
    assert found["runs"] == index()
    without = {task.name for task in csprop.tasks.catalogue() if not task.total}
    assert {each["name"] for each in found["no_proof"]} == without


def test_one_run(shell: Shell) -> None:
    for name in ("group-C60", "zoo:group-C60"):
        said = shell("zoo", name).out
        assert said.startswith("zoo:group-C60: proven for all lengths\n")
        assert "60 states" in said
        assert "trained, preset rotor, seed 0, length 40, short_first 50" in said
    found = shell.json("zoo", "anbn")
    assert (found["run"], found["counters"], found["preset"]) == ("zoo:anbn", 2, "counter")


def test_a_copy_is_a_run_directory(shell: Shell) -> None:
    copied = "runs/copy: a copy of zoo:parity. Its proof can be checked:\n  csprop certify"
    assert shell("zoo", "parity", "--out", "runs/copy").out.startswith(copied)
    copy, packed = RunFolder("runs/copy"), RunFolder("zoo:parity")
    for name in (*filter(packed.has, FILES), MANIFEST):
        assert (copy.path / name).read_bytes() == (packed.files / name).read_bytes()
    shell("certify", "runs/copy", "--check")
    shell("certify", "runs/copy")
    said = shell.refuse("zoo", "parity", "--out", "runs/copy")
    assert "runs/copy: already holds a run: choose another --out" in said
    assert shell.json("zoo", "parity", "--out", "more")["copy"] == "more"


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["zoo", "partiy"], "the zoo has no run 'partiy': did you mean parity?"),
        (["report", "zoo:x", "--out", "page.html"], "the zoo has no run 'x': `csprop zoo` lists"),
        (["zoo", "--out", "copy"], "--out copies one run: write its name"),
        (["zoo", "parity", "--out", "zoo:mine"], "zoo:mine: nothing is written to the zoo"),
        (["certify", "zoo:parity"], "zoo:parity: is proven already: add --check to verify it"),
        (["train", "parity", "--out", "zoo:parity"], "zoo:parity: nothing is written to the zoo"),
        (["train", "--resume", "--out", "zoo:parity"], "zoo:parity: nothing is written to the zoo"),
        (["learn", "parity", "--out", "zoo:mine"], "zoo:mine: nothing is written to the zoo"),
    ],
)
def test_what_the_zoo_refuses(argv: list[str], sentence: str, shell: Shell) -> None:
    assert f"csprop {argv[0]}: {sentence}" in shell.refuse(*argv)


def test_pages(shell: Shell) -> None:
    shell("report", "zoo:parity", "zoo:nested-3", "--out", "page.html")
    page = Path("page.html").read_text()
    assert "zoo:parity" in page
    assert "zoo:nested-3" in page
    assert shell.json("explore", "zoo:parity", "--no-open")["runs"] == ["zoo:parity"]
