"""A proof is believed only after a walk: a page never shows a forged run as proven.

Whoever forges a run can also mend the digests in its manifest, as `RunFolder.write` does. The many
forgeries of tests/proof/test_forgery.py go through the page as well; here are those of one kind each.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import csprop
from csprop.cli.main import main
from csprop.files import digest
from csprop.training.checkpoint import CERTIFICATE, CONFIG, RunFolder
from tests.helpers.forgery import Draft

Document = dict[str, Any]
Forge = Callable[[Document], Any]
Report = Callable[[Path], tuple[int, str, str]]
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
    assert not run.certify(rounds=0).proven
    return path


@pytest.fixture(scope="session")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certified run of a file, which has the name of a built-in task."""
    folder = tmp_path_factory.mktemp("files")
    texts = [f"{number:0{length}b}" for length in range(1, 8) for number in range(2**length)]
    lines = [f"{text},{['even', 'odd'][text.count('1') % 2]}" for text in texts]
    (folder / "parity.csv").write_text("\n".join(["sequence,label", *lines]) + "\n")
    assert csprop.train(folder / "parity.csv", out=folder / "run").certify().proven
    return folder / "run"


@pytest.fixture
def report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Report:
    """Return the exit code of `csprop report`, its page, and its words on stderr."""

    def make_report(run: Path) -> tuple[int, str, str]:
        out = tmp_path / "page.html"
        code = main(["report", str(run), "--out", str(out)])
        return code, out.read_text() if out.exists() else "", capsys.readouterr().err

    return make_report


def forge_run(run: Path, to: Path, forge: Forge) -> Path:
    """Copy a run with another certificate, and digests that fit."""
    shutil.copytree(run, to)
    folder = RunFolder(to)
    folder.write_json(CERTIFICATE, forge(folder.read_json(CERTIFICATE)))
    return to


def refuses(report: Report, run: Path, sentence: str = "does not hold: ") -> None:
    code, page, words = report(run)
    assert (code, page) == (2, "")
    assert sentence in words
    assert words.count("\n") == 1


def change(part: str, **changes: Any) -> Forge:
    return lambda document: document | {part: document[part] | changes}


@pytest.mark.parametrize("name", ["parity", "short", "refused"])
def test_a_forged_certificate_is_refused(
    name: str, tmp_path: Path, report: Report, request: pytest.FixtureRequest
) -> None:
    run = request.getfixturevalue(name)
    refuses(report, forge_run(run, tmp_path / "run", lambda it: it | {"statement": WRONG}))


def forge_weights(run: Path, to: Path) -> Path:
    """Copy a run with a locked model that is wrong, and a certificate that fits it in all else."""
    draft = Draft.of(run)
    before, draft.data = dict(draft.certificate), None  # the rows stay where they are
    for name in [each for each in draft.locked if each.startswith("network.decoder.")]:
        draft.locked[name] = -draft.locked[name]
    draft.complete()
    machine = {name: draft.certificate[name] for name in ("machine", "automaton", "minimal_states")}
    assert machine["automaton"] != before["automaton"]
    draft.certificate = before | machine
    draft.write(to)
    return to


def test_another_machine_is_refused_though_everything_fits_it(
    parity: Path, tmp_path: Path, report: Report, capsys: pytest.CaptureFixture[str]
) -> None:
    run = forge_weights(parity, tmp_path / "run")
    refuses(report, run, "does not hold: state ")
    assert main(["eval", str(run), "--lengths", "16", "--json"]) == 2
    words = capsys.readouterr()
    assert words.out == ""
    assert "does not hold" in words.err


def test_a_page_says_what_is_not_proven(short: Path, refused: Path, report: Report) -> None:
    assert "not proven (wrong on some inputs of length 6)" in report(short)[1]
    page = report(refused)[1]
    assert "not proven (" in page
    assert "Nothing is proven: " in page


def test_a_certified_file_is_not_the_task_of_its_name(rows: Path, parity: Path, report: Report) -> None:
    code, page, _ = report(rows)
    assert code == 0
    assert "Its answers agree with all 254 rows of parity.csv" in page
    assert csprop.load(rows).task.name == csprop.load(parity).task.name == "parity"
    assert "~70, ~50, 30" in report(parity)[1], "the paper's numbers are about the task"
    assert "in the paper (" not in page
    assert "~70" not in page
    assert "<h1>parity.csv</h1>" in page
    assert "parity.csv, router, seed 0<br>" in page


@pytest.mark.parametrize("way", ["gone", "changed"])
@pytest.mark.parametrize("honest", [True, False])
def test_without_its_rows_a_certificate_is_not_announced(
    way: str, honest: bool, rows: Path, tmp_path: Path, report: Report
) -> None:
    run, data = tmp_path / "run", tmp_path / "parity.csv"
    shutil.copytree(rows, run) if honest else forge_weights(rows, run)
    shutil.copy(rows.parent / "parity.csv", data)
    folder = RunFolder(run)
    for name in (CONFIG, CERTIFICATE):
        folder.write_json(name, change("task", data=str(data))(folder.read_json(name)))
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
    *lines, last = (rows.parent / "parity.csv").read_text().splitlines()
    data.write_text("\n".join([*lines, last.replace("odd", "even")]) + "\n")
    name = change("task", data=str(data), sha256=digest(data.read_bytes()))
    folder = RunFolder(forge_run(rows, run, name))
    folder.write_json(CONFIG, name(folder.read_json(CONFIG)))
    refuses(report, run)


def test_a_folder_leaves_out_a_forged_run(parity: Path, tmp_path: Path, report: Report) -> None:
    shutil.copytree(parity, tmp_path / "runs" / "whole")
    forge_run(parity, tmp_path / "runs" / "forged", lambda it: it | {"statement": WRONG})
    code, page, words = report(tmp_path / "runs")
    assert code == 0
    assert WRONG not in page
    assert "runs/forged</th>" not in page
    assert "; left out" in words
