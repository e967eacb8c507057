"""The verbs that certify a run and hand it over, and those that use what was certified."""

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import csprop
from csprop.automata.export import FORMATS
from csprop.automata.machine import Machine
from csprop.cli.main import main
from csprop.proof.locked_counter import LockedCounter
from csprop.runs import training
from csprop.runs.machines import from_machine
from csprop.runs.run import Run
from csprop.training.checkpoint import CERTIFICATE, LOCKED, RunFolder
from tests.automata.test_export import programs, says
from tests.cli.conftest import Shell, strings

TRAINING = ["--samples", "1000", "--width", "8", "--epochs", "8", "--hold", "0"]
STRINGS = strings("01.", 4)
WORDS = strings("ab", 6)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certified run that can be resumed: flip-flop, which small models lock on at once."""
    out = tmp_path_factory.mktemp("runs") / "flip"
    assert main(["train", "flip-flop", *TRAINING, "--out", str(out)]) == 0
    return out


@pytest.fixture
def certified(original: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return shutil.copytree(original, tmp_path / "flip")


@pytest.fixture
def plain(certified: Path) -> Path:
    """The same before it was certified."""
    for name in ("certificate.json", "locked.safetensors"):
        (certified / name).unlink()
    return certified


def test_training_ends_in_the_proof_that_certify_finds(original: Path, shell: Shell) -> None:
    said = shell("train", "flip-flop", *TRAINING, "--out", "run", "--as-trained")
    assert "not tried │" in said.out
    assert "proven for" not in said.err
    files = [CERTIFICATE, LOCKED, "model.safetensors", "config.json"]
    assert [Path("run", name).exists() for name in files] == [False, False, True, True]
    shell("certify", "run")
    for name in files:
        assert Path("run", name).read_bytes() == (original / name).read_bytes(), name


def test_a_run_that_is_resumed_is_proven_once(plain: Path, shell: Shell) -> None:
    resume = ["train", "--resume", "--out", plain]
    (plain / LOCKED).write_bytes(b"left by a proof that was killed")
    found = shell.json(*resume)
    assert (found["proven"], found["verdict"]) == (True, "proven for all lengths, 2 states")
    shell("certify", plain, "--check")
    shell.monkeypatch.delattr(Run, "certify")  # from here on nobody looks for a proof
    said = shell(*resume)
    assert said.err.endswith("\nflip-flop seed 0: proven for all lengths, 2 states\n")
    assert "yes │" in said.out
    (plain / CERTIFICATE).write_text("{}")  # a certificate that does not hold stays
    said = shell(*resume)
    assert f"seed 0: {plain}/certificate.json: does not hold: " in said.err
    assert "no │" in said.out
    assert (plain / CERTIFICATE).read_text() == "{}"


def test_a_proof_that_takes_too_long_is_left_to_certify(plain: Path, shell: Shell) -> None:
    shell.monkeypatch.setattr(training, "PROOF_SECONDS", 0.0)
    said = shell("train", "--resume", "--out", plain)
    sentence = f"no proof within 0 seconds; `csprop certify {plain}` looks without a limit of time"
    assert f"flip-flop seed 0: {sentence}" in said.err
    assert "no │" in said.out
    assert not any((plain / name).exists() for name in (CERTIFICATE, LOCKED))
    found = shell.json("train", "--resume", "--out", plain)
    assert (found["proven"], found["verdict"]) == (False, "no proof within 0 seconds")
    assert "the locked model answers" not in shell("predict", plain, typed="01.\n").err
    shell("certify", plain)  # has no limit


def test_certify_says_and_writes_what_it_proved(plain: Path, shell: Shell) -> None:
    todo = f"`csprop certify {plain}`"
    assert todo in shell.refuse("automaton", plain)
    assert todo in shell.refuse("certify", plain, "--check")
    for _ in range(2):  # once more is fine
        said = shell("certify", plain).out
        assert said.startswith(f"{plain}: proven for all lengths\n")
        assert f"csprop certify {plain} --check" in said
        document = json.loads((plain / "certificate.json").read_text())
        assert document["verdict"] == "proven for all lengths"
        manifest = json.loads((plain / "manifest.json").read_text())
        for name in ("certificate.json", "locked.safetensors"):
            assert manifest[name] == hashlib.sha256((plain / name).read_bytes()).hexdigest()
    said = shell("certify", plain, "--check").out
    assert said.startswith(f"{plain}: the certificate holds\n")


def test_json_is_one_document(certified: Path, shell: Shell) -> None:
    assert shell.json("certify", certified)["proven"] is True
    assert shell.json("certify", certified, "--check")["run"] == str(certified)
    both = shell.json("certify", certified, certified, "--check")
    assert [each["proven"] for each in both] == [True, True]
    found = shell.json("automaton", certified, "--format", "c")
    assert (found["states"], found["format"], found["picture"]) == (2, "c", None)
    assert "int main" in found["source"]
    for options in ([], ["--as-trained"]):
        found = shell.json("eval", certified, "--lengths", 8, *options)
        assert found["locked"] is not bool(options)


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        ("certificate.json", lambda it: b"{", "malformed"),
        ("certificate.json", lambda it: it.replace(b'"pairs"', b'"peers"'), "'peers' is not a field"),
        ("certificate.json", lambda it: it.replace(b'"flip-flop"', b'"parity"'), "about another task"),
        ("locked.safetensors", lambda it: b"nothing", ""),
        ("locked.safetensors", lambda it: None, ""),
    ],
)
def test_a_spoilt_certificate_is_exit_1(
    certified: Path, shell: Shell, name: str, change: Any, complaint: str
) -> None:
    path = certified / name
    content = change(path.read_bytes())
    path.unlink() if content is None else path.write_bytes(content)
    err = shell.refuse("certify", certified, "--check", code=1)
    assert err.startswith(f"csprop certify: {certified}/certificate.json does not hold: ")
    assert complaint in err


def test_one_length(certified: Path, shell: Shell) -> None:
    said = "right on every input of length 5"
    assert said in shell("certify", certified, "--length", 5).out
    shell("certify", certified, "--check")  # the proof is not lost
    document = json.loads((certified / "certificate.json").read_text())
    RunFolder(certified).write_json("certificate.json", document | {"format": 1})
    printed = shell("certify", certified, "--length", 5)  # nor is a proof of another version
    assert said in printed.out
    assert "the existing certificate is kept; this result is not saved" in printed.err
    assert json.loads((certified / "certificate.json").read_text())["format"] == 1
    for name in ("locked.safetensors", "certificate.json"):
        (certified / name).unlink()
    shell("certify", certified, "--length", 5)
    err = shell.refuse("certify", certified, "--check", code=1)
    assert "it covers one length by trial" in err


@pytest.mark.parametrize(
    ("task", "next_steps"),
    [("parity", ["csprop train parity --preset router --out {}-router",
                 "csprop learn parity --out {}-learned"]),
     ("parenthesis", ["csprop train parenthesis --preset counter --out {}-counter",
                      "csprop certify {} --length 16"]),
     ("anbncn", ["csprop train anbncn --preset counter --out {}-counter",
                 "csprop certify {} --length 12"])],  # there are at most 2^20 inputs
)  # fmt: skip
def test_what_training_did_not_teach_is_exit_1(task: str, next_steps: list[str], shell: Shell) -> None:
    options = ["--samples", "60", "--width", "4", "--length", "6", "--epochs", "1"]
    options += ["--preset", "paper", "--rotate", "none"]
    shell("train", task, *options, "--out", "run")
    said = shell("certify", "run", "--rounds", 0, code=1).out
    assert said.startswith("run: not proven\n")
    assert "Nothing is proven" in said
    assert "The model has not learned" in said
    *_, steps = said.partition("Next, one of:\n")
    assert [line.strip() for line in steps.splitlines()[::2]] == [
        step.format("run") for step in next_steps
    ]
    counts = "infinitely many states, which only a model that counts can hold"
    assert (counts in said) == (task != "parity")
    assert not Path("run/locked.safetensors").exists()
    assert "it claims no proof" in shell.refuse("certify", "run", "--check", code=1)
    assert "is not certified" in shell.refuse("automaton", "run")


def test_a_router_that_saw_too_little_is_told_to_see_more(shell: Shell) -> None:
    # Of length 4, only 1010 is not in Tomita 7.
    said = shell("train", "tomita-7", "--length", 4, "--samples", 400, "--out", "run")
    assert "tomita-7 seed 0: not proven (counterexample); `csprop certify run` looks" in said.err
    assert "no │" in said.out
    assert not json.loads(Path("run", CERTIFICATE).read_text())["proven"]
    said = shell("certify", "run", code=1).out
    assert "csprop train tomita-7 --samples 800 --out run-more" in said
    assert "--rounds" not in said  # a router is not trained further


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--length", "3", "--depth", "3"], "leave out --depth"),
        (["--check", "--length", "3"], "leave out --length and --depth"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    original: Path, shell: Shell, options: list[str], sentence: str
) -> None:
    assert sentence in shell.refuse("certify", original, *options)


@pytest.mark.parametrize(
    ("wrong", "verdict", "sentence"),
    [
        ((), "agrees with every row", "agree with all 126 rows of ends.csv"),
        ((30, 77), "agrees with 124 of 126 rows", "agree with 124 of 126 rows of ends.csv"),
    ],
)
def test_a_data_file(wrong: tuple[int, ...], verdict: str, sentence: str, shell: Shell) -> None:
    rows = [(word, (word[-1] == "a") != (line in wrong)) for line, word in enumerate(WORDS, start=1)]
    Path("ends.csv").write_text("".join(f"{word},{'yes' if yes else 'no'}\n" for word, yes in rows))
    options = ["--preset", "rotor", "--width", "8", "--epochs", "10", "--out", "run"]
    said = shell("train", "--data", "ends.csv", *options)
    assert f"\nends seed 0: {verdict}, 2 states\n" in said.err
    said = shell("certify", "run").out
    assert said.startswith(f"run: {verdict}\n")
    assert ("disagree   rows 30, 77\n" in said) == bool(wrong)
    assert "Next, one of" not in said
    assert sentence in shell.words("certify", "run", "--check")
    assert shell("automaton", "run").err == f"run: {verdict}; 2 states\n"
    Path("ends.csv").unlink()
    for options in ([], ["--check"]):
        assert "ends.csv: there is no such file" in shell.refuse("certify", "run", *options)


def test_a_machine_that_disagrees_with_many_rows_is_said_to_be_poor(shell: Shell) -> None:
    """It knows the last token, and not how the sequence began."""
    data = shell.folder / "some.csv"
    data.write_text("".join(f"{w},{'yes' if w[-1] == 'a' or w[:2] == 'bb' else 'no'}\n" for w in WORDS))
    task = csprop.tasks.from_file(data)
    yes, no = (task.classes.index(name) for name in ("yes", "no"))
    from_machine(task, Machine(transitions=((0, 1), (0, 1)), outputs=(yes, no)), "run")
    assert f"csprop learn {data} --out run-learned" in shell("certify", "run").out


@pytest.mark.parametrize("format", ["json", "dot", "python", "c"])
def test_every_format_is_that_of_the_library(original: Path, shell: Shell, format: str) -> None:
    said = shell("automaton", original, "--format", format)
    assert said.err == f"{original}: proven for all lengths; 2 states\n"
    machine = csprop.load(original).automaton
    assert machine is not None
    assert said.out.rstrip("\n") == FORMATS[format](machine).rstrip("\n")


def test_pictures(shell: Shell) -> None:
    draw = ["automaton", "zoo:flip-flop", "--picture"]
    assert "drawn in machine.svg" in shell(*draw, "machine.svg").err
    assert "<svg" in Path("machine.svg").read_text()
    assert "ends in .png, .svg or .pdf" in shell.refuse(*draw, "machine.xyz")


def test_eval_and_predict_use_the_locked_model(original: Path, shell: Shell) -> None:
    notice = f"{original}: proven for all lengths; the locked model answers"
    for verb in (["eval", original, "--lengths", 8], ["predict", original]):
        assert notice in shell(*verb, typed="01.\n").err
        assert notice not in shell(*verb, "--as-trained", typed="01.\n").err
    trained = shell.predict(original, STRINGS, "--as-trained")
    assert shell.predict(original, STRINGS) == trained


def test_more_training_ends_a_certificate(certified: Path, shell: Shell) -> None:
    resume = ["train", "--resume", "--out", certified]
    printed = shell(*resume, "--json")  # nothing is left to do, and it has learned
    assert json.loads(printed.out)["learned"]
    assert "learned" not in printed.err
    shell("certify", certified, "--check")
    shell(*resume, "--epochs", 9, "--as-trained")
    manifest = json.loads((certified / "manifest.json").read_text())
    for name in ("certificate.json", "locked.safetensors"):
        assert not (certified / name).exists()
        assert name not in manifest
    assert "first" in shell.refuse("certify", certified, "--check")


# Runs that count.


HALF = 2**19
DEEP = ["(" * HALF + ")" * HALF, "(" * HALF + ")" * (HALF - 1), "(" * (HALF - 1) + ")" * (HALF + 1)]


def test_certify_says_what_is_counted(brackets: Path, shell: Shell) -> None:
    # Certifying again gives the certificate that the run has, without the search.
    shell.monkeypatch.setattr(Run, "certify", lambda self, **options: self.certificate)
    said = shell("certify", brackets).out
    assert said.startswith(f"{brackets}: proven for all lengths and depths\n")
    document: dict[str, Any] = json.loads((brackets / "certificate.json").read_text())
    control = csprop.load(brackets).locked
    assert isinstance(control, LockedCounter)
    held = f"the network has {len(control.machine)} states and 1 counter"
    assert f"\nmachine    3 states and 1 counter; {held}\n" in said
    assert "\ncounter c  ( +1, ) −1\n" in said
    assert "counts are seen from −1 to 1, and beyond as these; in the network" in said
    assert f"each gate is at least {document['gate']:.2f} from" in said
    assert f"leads the next by at least {document['margin']:.2f}\n" in said
    assert "\nexact      counts up to 2^62; in the network's own float32, up to 2^21\n" in said
    assert max(len(line) for line in said.splitlines() if str(brackets) not in line) <= 80
    assert "Next, one of" not in said
    table = shell("certify", brackets, brackets).out
    assert table.count("1 counter") == 2
    assert max(map(len, table.splitlines())) <= 80


def test_predictions_are_certain(brackets: Path, shell: Shell) -> None:
    found = shell.json("predict", brackets, typed="(()\n()\n")["predictions"]
    chances = [each["probabilities"] for each in found]
    assert chances == [{"no": 1.0, "yes": 0.0}, {"no": 0.0, "yes": 1.0}]
    (found,) = shell.json("predict", brackets, "--as-trained", typed="()\n")["predictions"]
    assert 0.5 < found["probabilities"]["yes"] < 1


def test_eval_counts_no_error(brackets: Path, shell: Shell) -> None:
    every = shell.json("eval", brackets, "--exhaustive", "--lengths", "2,8")
    assert [(row["count"], row["wrong"]) for row in every["scores"]] == [(4, 0), (256, 0)]
    assert every["locked"] is True
    sample = shell.json("eval", brackets, "--lengths", "16,4096")
    assert [row["wrong"] for row in sample["scores"]] == [0, 0]


def test_a_million_tokens_half_a_million_deep(brackets: Path, shell: Shell) -> None:
    want = ["yes", "no", "no"]
    assert shell.predict(brackets, DEEP) == want
    run = csprop.load(brackets)
    assert run.predict(DEEP) == want
    stream = run.stream()
    for token in [0] * 1000 + [1] * 999:
        assert int(stream.step(token).argmax()) == 0
    assert int(stream.step(1).argmax()) == 1
    assert run.automaton is not None
    for command in programs(run.automaton, shell.folder):
        assert says(command, "\n".join(DEEP).encode()) == (0, b"yes\nno\nno\n", "")


def test_the_tasks_that_count_are_listed(shell: Shell) -> None:
    marked = re.findall(r"^  (\S+) \*  ", shell("tasks").out, flags=re.MULTILINE)
    assert marked == [task.name for task in csprop.tasks.catalogue() if task.counting is not None]
    assert "parenthesis" in marked
