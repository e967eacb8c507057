"""Pages of runs: their content, their charts and tables, and bad input."""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator

import csprop
from csprop import tasks
from csprop.cells.options import Shape
from csprop.cells.rotor import RotorBlock
from csprop.cli.main import main
from csprop.errors import InputError
from csprop.report import embed, runs
from csprop.report.charts import COLOURS, MOST_POINTS, curve
from csprop.report.page import Page, table
from csprop.training.checkpoint import CERTIFICATE, LOCKED, METRICS, RESULT, RunFolder
from tests.helpers import forgery
from tests.helpers.browser import Visit
from tests.helpers.zoo import unpack
from tests.report.conftest import read_data, write_html


def test_a_page_has_the_accuracies_of_eval(
    page: Path, parity: Path, printed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    html = page.read_text()
    assert "For every sequence of one or more tokens 0, 1, of any length" in html
    assert "first at 100%" in html
    charts = read_data(html)["charts"].values()
    (chart,) = (each for each in charts if each["x"]["label"] == "length")
    shown = {each["name"]: dict(each["points"]) for each in chart["series"]}
    asked = {
        "parity, rotor, seed 0, locked": [str(parity)],
        "parity, rotor, seed 0, as trained": [str(parity), "--as-trained"],
        "parity, paper, seed 0, as trained": [str(printed)],
    }
    assert shown.keys() == asked.keys()
    for name, argv in asked.items():
        lengths = list(shown[name])
        assert lengths == [16, 17, 18, 64]
        capsys.readouterr()
        assert main(["eval", *argv, "--lengths", ",".join(map(str, lengths)), "--json"]) == 0
        scores = json.loads(capsys.readouterr().out)["scores"]
        accuracies = {each["length"]: each["accuracy"] for each in scores}
        assert accuracies == shown[name]


def test_charts_are_hovered_zoomed_and_read(page: Path, visit: Visit) -> None:
    tab = visit(page)
    figure = tab.page.locator("figure[data-chart]").first
    plot, readout = figure.locator(".plot"), figure.locator(".readout")
    line = lambda: plot.locator(".line").first.get_attribute("d")  # noqa: E731
    plot.focus()
    plot.press("ArrowRight")
    plot.press("ArrowRight")
    assert readout.inner_text().startswith("epoch 2; parity, rotor, seed 0: ")
    assert plot.locator(".mark").count() >= 2, "the jump is marked"
    whole = line()
    figure.get_by_role("button", name="zoom in").click()
    assert line() != whole
    plot.press("0")
    assert line() == whole
    box = plot.bounding_box()
    tab.page.mouse.move(box["x"] + 150, box["y"] + 100)
    assert readout.inner_text().startswith("epoch ")
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + 220, box["y"] + 100)
    tab.page.mouse.up()
    assert line() != whole
    plot.dblclick()
    assert line() == whole
    figure.locator("summary").click()
    lengths = "(it) => data.charts[it.dataset.chart].series.map((series) => series.points.length)"
    figure.locator("tbody tr").first.wait_for()
    assert figure.locator("tbody tr").count() == max(figure.evaluate(lengths))
    plot.press("End")
    plot.press("Control+-")
    assert line() == whole, "the browser's own keys stay its own"
    plot.press("+")
    plot.press("-")
    assert line() == whole, "out undoes in"


def test_numbers_sort_by_size_and_blanks_come_last(tmp_path: Path, visit: Visit) -> None:
    page = Page("Sorting", "")
    cells = ["84.9% (51.5%)", "", "~70, ~50, 30", "1,000", "–", "9"]
    rows = [[str(10 - number), cell] for number, cell in enumerate(cells)]
    page.add("Sorting", table("Sorting", ["name", "number"], rows))
    path = tmp_path / "page.html"
    path.write_text(page.html())
    tab = visit(path)
    heading = tab.page.get_by_role("button", name="number")
    ways = [["9", "~70, ~50, 30", "84.9% (51.5%)", "1,000", "–", ""],
            ["1,000", "84.9% (51.5%)", "~70, ~50, 30", "9", "–", ""], cells]  # fmt: skip
    for expected in ways:
        heading.click()
        assert tab.page.locator("tbody td").all_inner_texts() == expected
    tab.page.get_by_role("button", name="name").click()
    assert tab.page.locator("th[aria-sort=ascending]").count() == 1, "for screen readers"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lines_stand_out_from_the_paper(scheme: str, page: Path, visit: Visit) -> None:
    """By WCAG 2; axe looks at the contrast of words."""
    tab = visit(page, color_scheme=scheme)
    colour = "(name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()"

    def luminance(name: str) -> float:
        parts = [part / 255 for part in bytes.fromhex(tab.page.evaluate(colour, name)[1:])]
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    paper = luminance("--paper")
    for line in range(COLOURS):
        dark, light = sorted((luminance(f"--c{line}"), paper))
        assert (light + 0.05) / (dark + 0.05) >= 3, (scheme, line)


def test_a_long_curve_is_thinned_and_keeps_its_peaks() -> None:
    values = [0.5 + (epoch % 7) / 100 for epoch in range(100_000)]
    values[12_344] = 9.0
    points = curve(values, keep=[54_321])
    assert 200 < len(points) <= MOST_POINTS + 2
    common = dict(points).keys() & dict(curve([1.0] * 100_000)).keys()
    assert len(common) >= 200, "lines can be compared"
    assert (12_345, 9.0) in points
    assert 54_321 in dict(points)
    assert (points[0][0], points[-1][0]) == (1, 100_000)


def test_100_000_epochs_make_a_light_page(tmp_path: Path) -> None:
    folder, row = RunFolder(unpack("parity", tmp_path)), csprop.load("zoo:parity").metrics[0]
    epochs = (
        row | {"epoch": n, "loss": 1 + n % 91, "accuracy": n % 53 / 53} for n in range(1, 100_001)
    )
    folder.write(METRICS, "\n".join(map(json.dumps, epochs)).encode())
    assert len(write_html(folder.path).encode()) < 500_000


@dataclass(frozen=True, kw_only=True)
class Own(csprop.Rotor):
    """A cell that only Python knows."""

    def make(self, shape: Shape, generator: Generator) -> RotorBlock:
        return RotorBlock(self, shape, generator)


@pytest.mark.parametrize(
    ("cell", "width", "reason"),
    [
        (csprop.Paper(gate="per_channel", rotation="per_channel"), 800, "it would add"),
        (Own(), 4, "only Python can run its cell, Own."),
    ],
)
def test_a_model_that_the_page_cannot_run_is_left_out_and_named(
    cell: csprop.Cell, width: int, reason: str, tmp_path: Path
) -> None:
    sizes: dict[str, Any] = {"epochs": 1, "samples": 40, "length": 3, "width": width, "depth": 1}
    csprop.train("parity", cell=cell, out=tmp_path / "run", **sizes)
    html = write_html(tmp_path / "run")
    assert f"this model is not in the explorer, because {reason}" in html
    assert 'id="explorer"' not in html
    assert len(html) < 500_000


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ("report half --out page.html", "half: has no model.safetensors"),
        ("report whole --out there/page.html", "there is no directory there: make it first"),
        ("report whole --out whole", "whole: write the name of a file that ends in .html"),
        ("report whole --out whole/config.json", "write the name of a file that ends in"),
        ("report whole --out pipe.html", "pipe.html: write the name of a file"),
    ],
)
def test_a_mistake_is_one_sentence(
    argv: str,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    unpack("parity", tmp_path).rename("whole")
    unpack("parity", tmp_path).rename("half")
    os.mkfifo("pipe.html")
    folder = RunFolder("half")
    for name in ("model.safetensors", CERTIFICATE, LOCKED, RESULT):
        folder.remove(name)
    folder.write(METRICS, b"")
    assert main(argv.split()) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *(
            (METRICS, line)
            for line in ("{}", "1", "null", '{"epoch": 1, "loss": NaN}', '{"loss": "x"}')
        ),
        *((RESULT, text) for text in ("1", "[]", '{"accuracy": 1}')),
    ],
)
def test_a_damaged_file_is_one_sentence(name: str, damage: str, tmp_path: Path) -> None:
    folder = RunFolder(unpack("parity", tmp_path))
    before = folder.read(METRICS) if name == METRICS else b""
    folder.write(name, before + damage.encode() + b"\n")
    with pytest.raises(InputError, match=f"{name}.*: is malformed; the run is damaged"):
        write_html(folder.path)


def test_a_folder_of_runs_is_read_as_far_as_it_goes(printed: Path, tmp_path: Path) -> None:
    for seed in (2, 10):
        shutil.copytree(printed, tmp_path / "runs" / f"seed-{seed}")
    (tmp_path / "runs" / "seed-3").mkdir()
    (tmp_path / "runs" / "seed-3" / "config.json").write_text("{}")
    forged = RunFolder(unpack("parity", tmp_path / "runs"))
    forged.write_json(CERTIFICATE, forged.read_json(CERTIFICATE) | {"statement": "It is right."})
    said: list[str] = []
    html = runs.page([tmp_path / "runs", tmp_path / "runs" / "seed-2" / "."], False, said.append)
    assert html.index("runs/seed-2</small>") < html.index("runs/seed-10</small>")
    assert html.count("seed-2</small>") == 1, "the same run twice is one"
    assert "seed-3</small>" not in html
    assert "runs/parity</small>" not in html
    assert "It is right." not in html
    assert [line.endswith("; left out") for line in said] == [True, True]


def test_a_page_says_what_is_not_proven(printed: Path, tmp_path: Path) -> None:
    path = shutil.copytree(printed, tmp_path / "run")
    assert not csprop.load(path).certify(length=6).proven
    assert "not proven (wrong on some inputs of length 6)" in write_html(path)
    assert not csprop.load(path).certify(rounds=0).proven
    assert "Nothing is proven: " in write_html(path)


def test_a_certified_file_is_not_the_task_of_its_name(page: Path, tmp_path: Path) -> None:
    (tmp_path / "parity.csv").write_text(forgery.ROWS)
    html = write_html(forgery.compiled(tmp_path / "run", forgery.PARITY, tmp_path / "parity.csv"))
    assert "Its answers agree with all 6 rows of parity.csv" in html
    assert "<h1>parity.csv</h1>" in html
    assert "~70, ~50, 30" in page.read_text(), "the paper's numbers are about the task"
    assert "~70" not in html
    assert "in the paper (" not in html


def test_report_and_explore_write_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: not opened.append(address))
    unpack("parity", tmp_path).rename("run")
    assert main(["report", "run", "--out", "page.html", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert Path(found["page"]).stat().st_size == found["bytes"]
    assert main(["explore", ".", "--json"]) == 0, "a folder of runs"
    found = json.loads(capsys.readouterr().out)
    assert opened == [Path(found["page"]).as_uri()]
    assert found["opened"] is True
    assert 'id="explorer"' in Path(found["page"]).read_text()


def read_truth(truth: dict[str, list], tokens: list[int]) -> list[int]:
    """As the page's script reads the table; −1 where the truth is not known."""
    state, answers = 0, []
    for token in tokens:
        state = -1 if state < 0 else truth["moves"][state][token]
        answers.append(-1 if state < 0 else truth["answers"][state])
    return answers


@pytest.mark.parametrize(
    ("name", "states"),
    [("mod3-residue", 3), ("group-S4", 24), ("parenthesis", 4096), ("mod5000-residue", 4096)],
)
def test_the_truth_in_a_page_is_the_task(name: str, states: int) -> None:
    task = tasks.get(name)
    assert task.oracle is not None
    truth = embed._truth(task.oracle)
    tokens = torch.randint(len(task.vocab), (20, 400), generator=Generator().manual_seed(0))
    for row, labels in zip(tokens.tolist(), task.labels(tokens).tolist(), strict=True):
        assert read_truth(truth, row) == labels
    assert len(truth["moves"]) == len(truth["answers"]) == states
    inside = {state for row in truth["moves"] for state in row}
    assert (-1 in inside) == (states == 4096), "−1 leads out of the known states"
    assert inside - {-1} <= set(range(states))
