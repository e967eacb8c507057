"""What a command imports: torch only where a model in torch is trained, certified or asked."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import csprop
from csprop.cli.main import VERBS, main
from csprop.ops import native
from tests.cli.conftest import Shell
from tests.helpers.forgery import DOOR

# Runs commands one after the other where some modules cannot be imported, and tells how each ended.
WITHOUT = """
import contextlib, io, json, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if any(f"{name}.".startswith(f"{each}.") for each in absent):
            raise ImportError(f"{name} is absent")

absent, commands = json.load(sys.stdin)
sys.meta_path.insert(0, Absent())
from csprop.cli.main import main
ends = []
for given, argv in commands:
    sys.stdin, said, told = io.StringIO(given), io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
        try:
            code = main(argv)
        except SystemExit as stop:
            code = stop.code or 0
        except ImportError as error:
            code = str(error)
    ends.append([code, said.getvalue(), told.getvalue()])
json.dump(ends, sys.stdout)
"""

End = tuple[int | str, str, str]
"""Exit code, or the module that was missing; stdout; stderr."""


def ends(absent: list[str], *commands: list[str], given: str = "") -> list[End]:
    asked = json.dumps([absent, [(given, argv) for argv in commands]])
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], input=asked, capture_output=True, text=True, check=True
    )
    return [tuple(each) for each in json.loads(done.stdout)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, brackets: Path) -> dict[str, Path]:
    """Certified runs: a rotor, a router, counters, and a router that was learned from rows."""
    folder = tmp_path_factory.mktemp("runs")
    assert main(["zoo", "parity", "--out", str(folder / "parity")]) == 0
    csprop.compile(DOOR, folder / "door")
    sequences = [f"{number:b}" for number in range(1, 200)]
    labels = [("even", "odd")[each.count("1") % 2] for each in sequences]
    csprop.learn(sequences, labels, out=folder / "rows")
    lines = (f"{each},{label}\n" for each, label in zip(sequences, labels, strict=True))
    (folder / "more.csv").write_text("".join(lines))
    found = {"counters": brackets} | {name: folder / name for name in ("parity", "door", "rows")}
    for path in found.values():
        assert (path / "locked.safetensors").exists()
    return found


TEXT = {
    "parity": "0110\n1\n",
    "door": "open lock\nclose\n",
    "counters": "(()())\n)(\n",
    "rows": "1101\n",
}


def asked(path: Path, name: str) -> list[list[str]]:
    """All that can be asked of a certified run."""
    evals = ["--lengths 2,40 --seed 3", "--positions --lengths 2,40 --seed 3"]
    evals += ["--exhaustive --lengths 2,8", "--positions --exhaustive --lengths 8"]
    evals = [""] if name == "rows" else ["", *evals]
    evals += [f"--data {path.parent}/more.csv"] if name in ("rows", "parity") else []
    formats = (f"automaton --format {each}" for each in ("json", "text", "dot", "python", "c"))
    commands = ["predict", "predict --json", "certify --check", *formats]
    commands += [f"eval --json {options}" for options in evals]
    return [[verb, str(path), *options] for verb, *options in map(str.split, commands)]


def test_a_run_of_the_zoo_answers_without_torch(tmp_path: Path) -> None:
    commands = [*asked(Path("zoo:anbn"), "anbn"), ["zoo", "anbn", "--out", str(tmp_path / "copy")]]
    ended = ends(["torch"], *commands, given="aabb\n")
    for argv, (code, said, told) in zip(commands, ended, strict=True):
        assert code == 0, (argv, told)
        assert said


@pytest.mark.parametrize("name", TEXT)
def test_a_certified_run_answers_without_torch(runs: dict[str, Path], name: str, shell: Shell) -> None:
    """And says the same as the locked model in torch does, but for the rounding of float32."""
    commands = [argv for argv in asked(runs[name], name) if argv[0] in ("predict", "eval")]
    without = ends(["torch"], *commands, given=TEXT[name])
    shell.monkeypatch.setattr("csprop.proof.answers.load_certified", lambda path: None)
    for argv, (code, said, told) in zip(commands, without, strict=True):
        assert code == 0, (argv, told)
        shown = shell(*argv, typed=TEXT[name])
        assert told == shown.err
        if "--json" in argv:
            assert alike(json.loads(said), json.loads(shown.out)), argv
        else:
            assert said == shown.out


def alike(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(alike(left[name], right[name]) for name in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(alike, left, right))
    return left == (pytest.approx(right, abs=1e-6) if isinstance(left, float) else right)


HARMLESS = [
    "", "--help", "help train", "train --help-all", "example", "--version", "tasks",
    "tasks --json", "zoo", "zoo --json", "zoo parity",
    *(f"{verb} --help" for verb in VERBS),
]  # fmt: skip
MISTAKES = [
    "trian", "example event.jsonl", "train parity --bogus 3", "train parity --width",
    "train parity --epochs x", "train parity --preset motor", "train parity --width 0",
    "train partiy", "train mod1", "train", "train parity --seed 1 --seeds 0-3",
    "train parity --seeds many", "train parity --seed -1",
    "train parity --preset router --order 3", "train parity --places 7",
    "train parenthesis --length 15", "train parity --hold-pairs 0.1", "train --data {}/missing.csv",
    "train --data {}/missing.xls", "train --data {}/bad.csv", "train --resume --out {}/missing",
    "train parity --out {}/parity", "train parity --out zoo:parity", "learn {}/missing.csv",
    "learn partiy", "compile {}/missing.json --out {}/new", "compile {}/bad.csv --out {}/new",
    "report {}/missing --out {}/page.html", "report {}/parity --out {}/page.pdf",
    "explore {}/missing", "certify {}/parity --depth 0", "certify {}/missing", "certify zoo:parity",
    "automaton {}/plain", "automaton {}/missing", "eval {}/parity --lengths a",
    "eval {}/parity --exhaustive --lengths 40", "eval {}/missing", "predict {}/parity",
    "predict {}/missing", "predict {}/missing --as-trained", "predict zoo:partiy",
    "demo --out {}/parity", "export {}/missing {}/model.onnx",
    "export {}/parity {}/parity/config.json",
]  # fmt: skip


@pytest.fixture(scope="module")
def ended(runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, End]:
    """How every harmless command and every mistake ended where there is no torch."""
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "bad.csv").write_text("one,two,three\n")
    (folder / "parity").symlink_to(runs["parity"])
    (folder / "plain").mkdir()
    for name in ("config.json", "metrics.jsonl", "model.safetensors", "result.json", "manifest.json"):
        (folder / "plain" / name).write_bytes((runs["parity"] / name).read_bytes())
    commands = [*HARMLESS, *MISTAKES]
    filled = [command.replace("{}", str(folder)).split() for command in commands]
    return dict(zip(commands, ends(["torch"], *filled, given="01x\n"), strict=True))


@pytest.mark.parametrize("command", HARMLESS)
def test_help_and_lists_come_without_torch(command: str, ended: dict[str, End]) -> None:
    code, said, _ = ended[command]
    assert code == 0
    assert said


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_without_torch(mistake: str, ended: dict[str, End]) -> None:
    code, _, told = ended[mistake]
    assert code == 2, told
    sentence = told.splitlines()[-1]
    assert sentence.startswith("csprop")
    assert "Traceback" not in told


def test_a_plain_install_lacks_only_pictures(runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "machine.json").write_text(json.dumps(DOOR.to_json()))
    parity, page, new = str(runs["parity"]), str(tmp_path / "page.html"), str(tmp_path / "new")
    work = [
        *asked(runs["parity"], "parity"),
        ["certify", parity],
        ["report", parity, "--out", page],
        ["explore", parity, "--no-open"],
        ["learn", "tomita-1", "--samples", "200", "--out", new],
        ["compile", str(tmp_path / "machine.json"), "--out", str(tmp_path / "door")],
    ]
    pictures = {
        "drawing an automaton": ["automaton", parity, "--picture", str(tmp_path / "one.png")],
        "the report has figures, and": ["reproduce", "--quick", "--out", str(tmp_path / "study")],
        "a comparison has pictures, and": ["compare", "--quick", "--out", str(tmp_path / "compared")],
    }
    absent = ["matplotlib", "huggingface_hub"]
    ended = ends(absent, *work, *pictures.values(), given=TEXT["parity"])
    for argv, (code, _, told) in zip(work, ended, strict=False):
        assert code == 0, (argv, told)
    install = "needs matplotlib: python -m pip install 'csprop[figures]'"
    for what, (code, said, told) in zip(pictures, ended[len(work) :], strict=True):
        assert (code, said) == (2, "")
        assert told.endswith(f": {what} {install}\n")
    assert not any((tmp_path / name).exists() for name in ("one.png", "study", "compared"))


@pytest.mark.skipif(bool(native.WHY_NOT), reason="the kernel is not compiled")
def test_training_needs_neither_the_compiler_nor_sympy_nor_the_hub(tmp_path: Path) -> None:
    few = ["--epochs", "1", "--samples", "200", "--as-trained"]
    commands = [
        ["train", task, "--preset", preset, *few, "--out", str(tmp_path / preset)]
        for task, preset in (("parity", "rotor"), ("parity", "router"), ("parity", "paper"),
                             ("parenthesis", "counter"))
    ]  # fmt: skip
    absent = ["torch._dynamo", "torch._inductor", "sympy", "huggingface_hub", "networkx", "matplotlib"]
    commands.append(["train", "--resume", "--out", str(tmp_path / "rotor"), *few[:1], "2", few[-1]])
    for argv, (code, _, told) in zip(commands, ends(absent, *commands), strict=True):
        assert code == 0, (argv, told)
