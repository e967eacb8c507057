"""`csprop demo`: run once, and every claim of its story computed again by other means."""

import contextlib
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import csprop
from csprop.automata.export import to_text
from csprop.cli import demo
from csprop.cli.demo import TASKS
from csprop.cli.main import main
from csprop.proof.answers import load_certified
from csprop.runs.demo import LENGTHS, LOCKED, LSTM, PRINTED, SAMPLING, TRAINED, Measured, lstm
from csprop.tasks import get
from csprop.training.batches import training_data
from csprop.training.config import configure
from csprop.training.scores import percent
from csprop.training.seeding import generator
from tests.cli.conftest import Shell
from tests.helpers import examples

STATES = {"parity": 2, "mod3": 3, "parenthesis": 3}


@dataclass(frozen=True)
class Told:
    code: int
    words: str
    log: str
    numbers: dict[str, Any]
    out: Path


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """The story as a log, and the numbers that `--json` prints of the same run."""
    out, kept = tmp_path_factory.mktemp("demo") / "out", []
    words, log = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        story = demo._story
        patch.setattr(demo, "_story", lambda out: kept.append(story(out)) or kept[0])
        with contextlib.redirect_stdout(words), contextlib.redirect_stderr(log):
            code = main(["demo", "--out", str(out)])
    return Told(code, words.getvalue(), log.getvalue(), json.loads(json.dumps(kept[0])), out)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_the_accuracies_of_csprop_are_those_of_the_runs(told: Told, task: str) -> None:
    run = csprop.load(told.out / task)
    for name, model in ((TRAINED, run.model), (LOCKED, run.locked)):
        assert model is not None
        for length in LENGTHS[:2]:
            tokens = run.task.sample(SAMPLING.count(length), length, generator(0, "eval", length))
            with torch.no_grad():
                given = model(tokens)[:, -1].argmax(dim=1)
            right = np.mean(given.numpy() == [run.task.truth(row) for row in tokens.tolist()])
            assert told.numbers["tasks"][task]["accuracy"][name][str(length)] == right


@pytest.mark.slow
def test_the_table_shows_the_numbers(told: Told) -> None:
    for task, found in told.numbers["tasks"].items():
        assert set(found["accuracy"]) == {TRAINED, LOCKED, LSTM, PRINTED}
        for name, by_length in found["accuracy"].items():
            assert list(by_length) == [str(length) for length in LENGTHS]
            shown = " +".join(percent(value) for value in by_length.values())
            begin = task if name in (TRAINED, LOCKED) else ""
            assert re.search(rf"^   {begin} +{name} +{shown}$", told.words, re.MULTILINE), (task, name)


@pytest.mark.slow
def test_csprop_is_right_as_trained_where_others_drift(told: Told) -> None:
    """What the demo is for. The words follow the numbers; here the numbers are those hoped for."""
    assert told.code == 0
    for found in told.numbers["tasks"].values():
        assert {found["accuracy"][name]["16"] for name in (TRAINED, LOCKED, LSTM)} == {1}
        assert set(found["accuracy"][TRAINED].values()) == {1}
        assert set(found["accuracy"][LOCKED].values()) == {1}
    said = " ".join(told.words.split())
    assert "Right at 16 tokens and not at 65,536 are: LSTM (parenthesis); printed model (parity" in said


@pytest.mark.slow
@pytest.mark.parametrize("task", [*TASKS, "events"])
def test_the_proofs_hold_and_the_machines_are_drawn(told: Told, task: str, shell: Shell) -> None:
    shell("certify", told.out / task, "--check")  # other code than the prover's
    certified = load_certified(told.out / task)
    assert certified is not None
    machine = certified.certificate.automaton
    assert machine is not None
    for line in to_text(machine).splitlines():
        assert line in told.words
    if task != "events":
        proof = told.numbers["tasks"][task]["certificate"]
        assert proof["proven"]
        assert len(machine) == proof["states"] == STATES[task]
        assert f"   {task:<13}{proof['verdict']}: {STATES[task]} states" in told.words


@pytest.mark.slow
def test_the_labels_that_look_wrong_are_the_wrong_ones(told: Told) -> None:
    found, state_after = told.numbers["events"], examples.script("events").state_after
    rows = [json.loads(line) for line in Path(found["file"]).read_text("utf-8").splitlines()]
    wrong = [
        (line, row["label"], state_after(row["sequence"].split()))
        for line, row in enumerate(rows, start=1)
        if row["label"] != state_after(row["sequence"].split())
    ]
    assert [(each["line"], each["label"], each["answer"]) for each in found["suspects"]] == wrong
    assert (found["rows"], found["states"], found["clear"]) == (800, 5, True)
    assert f"   {len(wrong)} labels look wrong:" in told.words
    for line, label, answer in wrong:
        assert re.search(rf"│ +{line} │ +{label} │ +{answer} │", told.words)


@pytest.mark.slow
def test_the_log_and_the_page(told: Told, shell: Shell) -> None:
    assert len(told.log.splitlines()) == 9 + 3 + 1 + 1
    assert not re.search(r"epoch +\d|loss", told.log)
    assert "epoch" not in told.words
    narrow = [line for line in told.words.splitlines() if str(told.out) not in line]
    assert max(map(len, narrow)) <= 80
    assert len(narrow) < 130
    assert Path(told.numbers["page"]) == told.out / "page.html"
    text = Path(told.numbers["page"]).read_text("utf-8")
    assert all(name in text for name in (*TASKS, "events.jsonl"))
    said = shell.refuse("demo", "--out", told.out)
    assert said == f"csprop demo: {told.out}: already exists: remove it, or choose another --out\n"


@pytest.mark.slow
def test_the_commands_at_the_end_work(told: Told, shell: Shell) -> None:
    commands = re.findall(r"^   csprop (.*)$", told.words.split("Try next:")[1], re.MULTILINE)
    assert commands == [
        f"explore {told.out / 'parity'}",
        "train group-A5",
        "learn YOUR-FILE.jsonl",
    ]
    assert Path(shell(*commands[0].split(), "--no-open").out.strip()).exists()
    row = json.loads(re.findall(r"lines such as (.*)$", told.words, re.MULTILINE)[0])
    path = told.out / "mine.jsonl"
    path.write_text(f"{json.dumps(row)}\n{json.dumps(row | {'label': 'out'})}\n")
    assert csprop.tasks.from_file(path).vocab == ("fail", "ok")


@pytest.mark.parametrize(
    ("proven", "clear", "code"), [(True, True, 0), (False, True, 1), (True, False, 1)]
)
def test_json_is_one_document_and_the_code_says_whether_all_came_out(
    shell: Shell, proven: bool, clear: bool, code: int
) -> None:
    numbers = {"proven": proven, "events": {"clear": clear}}
    shell.monkeypatch.setattr(demo, "_story", lambda out: print("words") or numbers)
    assert shell.json("demo", "--out", "new", code=code) == numbers
    assert shell("demo", "--out", "newer", code=code).out == "words\n"


def test_the_words_claim_no_drift_where_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    steady, wrong, drifting = (
        Measured(dict(zip(LENGTHS, values, strict=True)), 9, 1.0, 0.1)
        for values in ((1.0, 1.0, 1.0), (0.5, 0.5, 0.5), (1.0, 0.5, 0.5))
    )
    names = (TRAINED, LSTM, PRINTED)
    demo._show_models({"parity": dict(zip(names, (steady, steady, wrong), strict=True))})
    assert "Right at" not in capsys.readouterr().out
    demo._show_models({"parity": dict(zip(names, (steady, drifting, wrong), strict=True))})
    said = " ".join(capsys.readouterr().out.split())
    assert "Right at 16 tokens and not at 65,536 are: LSTM (parity)." in said


@pytest.mark.parametrize("task", TASKS)
def test_the_printed_model_learns_from_the_sequences_of_the_others(task: str) -> None:
    known = get(task)
    own, printed = (
        training_data(known, configure(known, preset, 0, split="disjoint"))
        for preset in (None, "paper")
    )
    assert configure(known).recipe.split == "disjoint"
    for one, other in zip(own, printed, strict=True):
        assert (one.flat_tokens == other.flat_tokens).all()


def test_the_lstm_stops_once_it_has_learned() -> None:
    found = lstm("parity", 0)
    assert 3 <= found.epochs < 100
    assert found.held_out == found.accuracy[16] == 1
