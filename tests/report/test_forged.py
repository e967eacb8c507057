"""A proof is believed only after a walk: what was forged in a run directory is never shown as proven.

Whoever forges a run can also mend the digests in its manifest, as `RunFolder.write` does.
"""

import copy
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save as packed

import csprop
from csprop.automata.automaton import Automaton
from csprop.cli.main import main
from csprop.files import digest
from csprop.nn.model import CSP
from csprop.proof.document import machine_of
from csprop.proof.locked import Locked
from csprop.training.checkpoint import CERTIFICATE, CONFIG, LOCKED, RunFolder

from .conftest import certified

Document = dict[str, Any]
CLAIMS = ("proven for all lengths", "agrees with", "right on every input of length")
WRONG = "For every sequence there is, the locked model's answer is right"


@pytest.fixture(scope="session")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a certificate of one length."""
    path = tmp_path_factory.mktemp("runs") / "short"
    run = csprop.train("parity", preset="paper", epochs=1, samples=200, out=path)
    assert not run.certify(length=6).proven
    return path


@pytest.fixture(scope="session")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of which nothing could be proven."""
    path = tmp_path_factory.mktemp("runs") / "refused"
    run = csprop.train("parity", epochs=1, samples=40, width=4, out=path)
    certificate = run.certify(rounds=0)
    assert not certificate.proven
    return path


@pytest.fixture(scope="session")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certified run of a file, which has the name of a task of csprop's."""
    folder = tmp_path_factory.mktemp("files")
    data = folder / "parity.csv"
    texts = [f"{number:0{length}b}" for length in range(1, 8) for number in range(2**length)]
    lines = [f"{text},{['even', 'odd'][text.count('1') % 2]}" for text in texts]
    data.write_text("\n".join(["sequence,label", *lines]) + "\n")
    return certified(folder / "run", task=data)


@pytest.fixture
def report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[[Path], tuple[int, str, str]]:
    """The exit code of `csprop report`, its page, and what it says on stderr."""

    def reported(run: Path) -> tuple[int, str, str]:
        out = tmp_path / "page.html"
        code = main(["report", str(run), "--out", str(out)])
        return code, out.read_text() if out.exists() else "", capsys.readouterr().err

    return reported


Report = Callable[[Path], tuple[int, str, str]]


def forged(run: Path, to: Path, forge: Callable[[Document], Document]) -> Path:
    """A copy of a run with another certificate, and digests that fit."""
    shutil.copytree(run, to)
    folder = RunFolder(to)
    folder.write_json(CERTIFICATE, forge(folder.read_json(CERTIFICATE)))
    return to


def refuses(report: Report, run: Path, sentence: str) -> None:
    code, page, said = report(run)
    assert (code, page) == (2, "")
    assert sentence in said
    assert said.count("\n") == 1


def machine(document: Document, **changes: Any) -> Document:
    return document | {"machine": document["machine"] | changes}


def other_automaton(document: Document) -> Document:
    automaton = Automaton.from_json(document["automaton"])
    return document["automaton"] | {"answers": [1 - answer for answer in automaton.outputs]}  # pyright: ignore


@pytest.mark.parametrize(
    ("forge", "sentence"),
    [
        (lambda it: machine(it, transitions=[[0, 0], [0, 0]]), "is not about this locked model"),
        (lambda it: machine(it, outputs=it["machine"]["outputs"][::-1]), "is not about this locked"),
        (lambda it: it | {"automaton": other_automaton(it)}, "is not about this locked model"),
        (lambda it: it | {"weights": it["weights"] | {"sha256": "0" * 64}}, "is not about this locked"),
        (lambda it: it | {"model": it["model"] | {"width": 1}}, "is not about this locked model"),
        (lambda it: it | {"verdict": "proven for all lengths and more"}, "something else than what is"),
        (lambda it: it | {"statement": WRONG}, "says something else than what is proven"),
        (lambda it: it | {"proven": False}, "says something else than what is proven"),
        (lambda it: it | {"margin": 100.0}, "has other margins than this locked model"),
        (lambda it: it | {"minimal_states": 1}, "has other margins than this locked model"),
        (lambda it: it | {"depth": 5}, "has no depth although the task needs one"),
        (lambda it: it | {"task": {"name": "mod3"}}, "is about another task"),
        (lambda it: it | {"task": {"name": ""}}, "is about another task"),
        (lambda it: it | {"task": ""}, "is about another task"),
        (
            lambda it: {name: it[name] for name in it if name != "machine"},
            "is not about this locked model",
        ),
        (
            lambda it: {name: it[name] for name in it if name != "search"},
            "claims a proof and has none",
        ),
        (lambda it: it | {"machine": []}, "certificate.json: is"),
        (lambda it: it | {"format": 1}, "was written by another version"),
        (lambda it: {}, "is malformed"),
        (lambda it: [it], "is malformed"),
    ],
)
def test_a_forged_certificate_is_refused(
    forge: Callable[[Document], Document], sentence: str, parity: Path, tmp_path: Path, report: Report
) -> None:
    refuses(report, forged(parity, tmp_path / "run", forge), sentence)


def with_other_weights(run: Path, to: Path) -> Path:
    """A copy of a run whose locked model gives the wrong answers, with a certificate that says the same
    of it as before: weights, machine, automaton and digests fit each other."""
    loaded = csprop.load(run)
    assert isinstance(loaded.locked, Locked)
    network = copy.deepcopy(loaded.locked.network)
    assert isinstance(network, CSP)
    with torch.no_grad():
        for value in network.decoder.parameters():
            value.neg_()
    task = loaded.task
    codes = [each.clone() for each in loaded.locked.codes]
    locked = Locked(network, codes, loaded.locked.kept.clone(), len(task.vocab))
    automaton = locked.automaton(task.vocab, task.classes, task.words).minimal()
    assert isinstance(loaded.automaton, Automaton)
    assert automaton.difference(loaded.automaton) is not None
    content = packed(locked.state_dict())

    def forge(document: Document) -> Document:
        return document | {
            "model": asdict(network.config),
            "weights": {"file": LOCKED, "sha256": digest(content)},
            "machine": machine_of(locked),
            "automaton": automaton.to_json(),
            "minimal_states": len(automaton),
        }

    RunFolder(forged(run, to, forge)).write(LOCKED, content)
    return to


def test_another_machine_is_refused_though_everything_fits_it(
    parity: Path, tmp_path: Path, report: Report
) -> None:
    refuses(report, with_other_weights(parity, tmp_path / "run"), "does not hold: after ")


def test_a_proof_of_another_task_is_refused(parity: Path, tmp_path: Path, report: Report) -> None:
    """Run and certificate name another task, with as many tokens and classes."""
    for name in ("mod3", "mod2", "flip-flop"):
        task = csprop.tasks.get(name)
        run = tmp_path / name
        forged(parity, run, lambda it, task=task: it | {"task": task.describe()})
        folder = RunFolder(run)
        folder.write_json(CONFIG, folder.read_json(CONFIG) | {"task": task.describe()})
        code, page, said = report(run)
        assert (code, page) == (2, ""), name
        assert said.count("\n") == 1


@pytest.mark.parametrize("task", ["", {"name": ""}, {}, None, {"name": "parity "}])
def test_a_run_of_no_task_is_one_sentence(
    task: Any, parity: Path, tmp_path: Path, report: Report
) -> None:
    run = forged(parity, tmp_path / "run", lambda it: it | {"task": task})
    folder = RunFolder(run)
    folder.write_json(CONFIG, folder.read_json(CONFIG) | {"task": task})
    refuses(report, run, CONFIG)


def test_what_is_not_proven_is_shown_as_such(short: Path, refused: Path, report: Report) -> None:
    code, page, _ = report(short)
    assert code == 0
    assert "not proven (wrong on some inputs of length 6)" in page
    code, page, _ = report(refused)
    assert code == 0
    assert "not proven (" in page
    assert "Nothing is proven: " in page


@pytest.mark.parametrize(
    "changes",
    [
        {"proven": True},
        {"wrong": 0},
        {"verdict": "right on every input of length 6"},
        {"statement": WRONG},
        {"inputs": 10**9},
        {"proven": True, "wrong": 0, "verdict": "right on every input of length 6"},
        {"length": 8},
        {"length": 21},
        {"length": "6"},
    ],
)
def test_a_forged_certificate_of_one_length_is_refused(
    changes: Document, short: Path, tmp_path: Path, report: Report
) -> None:
    run = forged(short, tmp_path / "run", lambda it: it | changes)
    code, page, said = report(run)
    assert (code, page) == (2, "")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "changes", [{"proven": True}, {"verdict": "proven for all lengths"}, {"statement": WRONG}]
)
def test_what_could_not_be_proven_stays_so(
    changes: Document, refused: Path, tmp_path: Path, report: Report
) -> None:
    refuses(report, forged(refused, tmp_path / "run", lambda it: it | changes), "certificate.json: ")


def test_a_larger_automaton_is_not_called_the_smallest(
    parity: Path, tmp_path: Path, report: Report
) -> None:
    """It answers as the model does, with each state there twice."""

    def forge(document: Document) -> Document:
        automaton = Automaton.from_json(document["automaton"])
        size = len(automaton)
        rows = [[each + size for each in row] for row in automaton.transitions]
        doubled = {
            "transitions": rows + [list(row) for row in automaton.transitions],
            "answers": [*automaton.outputs, *automaton.outputs],
        }
        assert Automaton.from_json(document["automaton"] | doubled).difference(automaton) is None
        return document | {"automaton": document["automaton"] | doubled, "minimal_states": 2 * size}

    refuses(report, forged(parity, tmp_path / "run", forge), "is not about this locked model")


def test_a_certified_file_is_shown_with_its_proof(rows: Path, report: Report) -> None:
    code, page, _ = report(rows)
    assert code == 0
    assert "agrees with every row" in page
    assert "Its answers agree with all 254 rows of parity.csv" in page


def test_a_file_has_no_numbers_of_the_papers(rows: Path, parity: Path, report: Report) -> None:
    """Though it is called parity.csv, and its task parity."""
    assert csprop.load(rows).task.name == csprop.load(parity).task.name == "parity"
    assert "~70, ~50, 30" in report(parity)[1]
    page = report(rows)[1]
    assert "the paper (" not in page
    assert "~70" not in page
    assert "<h1>parity.csv</h1>" in page, "it is not taken for the task of that name"
    assert "parity.csv, router, seed 0<br>" in page


@pytest.mark.parametrize("way", ["gone", "changed"])
@pytest.mark.parametrize("honest", [True, False])
def test_without_its_rows_a_certificate_is_not_announced(
    way: str, honest: bool, rows: Path, tmp_path: Path, report: Report
) -> None:
    run = tmp_path / "run"
    shutil.copytree(rows, run) if honest else with_other_weights(rows, run)
    data = tmp_path / "parity.csv"
    shutil.copy(csprop.load(rows).task.describe()["data"], data)
    folder = RunFolder(run)
    for name in (CONFIG, CERTIFICATE):
        document = folder.read_json(name)
        folder.write_json(name, document | {"task": document["task"] | {"data": str(data)}})
    if honest:
        assert "agrees with every row" in report(run)[1], "the copy of the rows is as good"
    if way == "gone":
        data.unlink()
    else:
        data.write_text(data.read_text().replace("even", "odd", 1))
    code, page, _ = report(run)
    assert code == 0
    html, data = page.split('<script type="application/json"')
    assert html.count("not proven: its certificate could not be checked (") == 3  # lead, table, section
    assert data.count("not proven: its certificate could not be checked (") == 1  # explorer
    assert not any(claim in page for claim in CLAIMS)
    assert "Its answers agree" not in page
    assert "the best score leads" not in page, "its numbers are not shown either"


def test_rows_that_were_changed_with_their_digests_are_walked(
    rows: Path, tmp_path: Path, report: Report
) -> None:
    run, data = tmp_path / "run", tmp_path / "parity.csv"
    lines = Path(csprop.load(rows).task.describe()["data"]).read_text().splitlines()
    data.write_text("\n".join([lines[0], *lines[1:-1], lines[-1].replace("odd", "even")]) + "\n")
    task = {"data": str(data), "sha256": digest(data.read_bytes())}
    forged(rows, run, lambda it: it | {"task": it["task"] | task})
    folder = RunFolder(run)
    config = folder.read_json(CONFIG)
    folder.write_json(CONFIG, config | {"task": config["task"] | task})
    refuses(report, run, "says something else than what is proven")


def test_a_folder_leaves_out_what_is_forged(parity: Path, tmp_path: Path, report: Report) -> None:
    shutil.copytree(parity, tmp_path / "runs" / "whole")
    forged(parity, tmp_path / "runs" / "forged", lambda it: it | {"statement": WRONG})
    code, page, said = report(tmp_path / "runs")
    assert code == 0
    assert WRONG not in page
    assert "runs/forged</th>" not in page
    assert "; left out" in said


def test_eval_and_predict_refuse_what_the_page_refuses(
    parity: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = with_other_weights(parity, tmp_path / "run")
    assert main(["eval", str(run), "--lengths", "16", "--json"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "does not hold" in said.err
