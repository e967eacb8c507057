"""Pages fit every window, are accessible and small; charts, groups and labels are drawn well."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import csprop
from csprop.learning.learn import learn
from csprop.report.charts import LENGTH, PERCENT, Chart, Series
from csprop.report.page import Page
from tests.helpers.browser import Tab, Visit, violations
from tests.helpers.zoo import unpack
from tests.report.conftest import read_data, write_page

Make = Callable[[str], Path]
KINDS = ["one", "two", "many", "group", "learned", "counter"]
WIDTHS = [1440, pytest.param(1024, marks=pytest.mark.slow), 390]
TOO_WIDE = """[...document.querySelectorAll("table")].filter((it) => it.offsetWidth).filter((it) =>
    it.scrollWidth > it.clientWidth + 1 || it.scrollWidth > it.parentElement.clientWidth + 1
).map((it) => it.outerHTML.slice(0, 200))"""
"""Tables that are wider than their place, which would have to be scrolled or are cut off."""
OUTSIDE = """[...document.querySelectorAll(".machine > svg text, .places text, .badge, h1, h3, td, th")]
    .filter((it) => it.getBoundingClientRect().width)
    .filter((it) => it.getBoundingClientRect().right > innerWidth + 1
        || it.getBoundingClientRect().left < -1)
    .map((it) => it.textContent)"""


@pytest.fixture(scope="session")
def make_page(
    page: Path, parity: Path, brackets: Path, tmp_path_factory: pytest.TempPathFactory
) -> Make:
    """Make the page of a kind, once."""
    folder = tmp_path_factory.mktemp("fit")

    def find_run(kind: str) -> Path:
        if kind == "many":
            for seed in range(5):
                shutil.copytree(parity, folder / "many" / f"seed-{seed}")
        if kind == "learned":
            assert learn(csprop.example("events.jsonl"), out=folder / "learned").verdict.clear
        if kind == "group":
            unpack("group-A5", folder).rename(folder / "group")
        return {"one": parity, "counter": brackets}.get(kind, folder / kind)

    def make(kind: str) -> Path:
        path = page if kind == "two" else folder / f"{kind}.html"
        return path if path.exists() else write_page(path, find_run(kind), times=(1,))

    return make


def unfold(tab: Tab) -> None:
    tab.page.evaluate("document.querySelectorAll('details').forEach((it) => { it.open = true; })")
    tab.page.locator("details table").first.wait_for()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_everything_fits(kind: str, width: int, make_page: Make, visit: Visit) -> None:
    assert make_page(kind).stat().st_size < 1_000_000
    tab = visit(make_page(kind), width)
    for _ in range(2):  # folded, then unfolded
        assert tab.wide() <= width
        assert tab.page.evaluate(TOO_WIDE) == []
        assert tab.page.evaluate(OUTSIDE) == []
        unfold(tab)


@pytest.mark.parametrize("width", [1440, pytest.param(390, marks=pytest.mark.slow)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_everybody_can_use_it(
    kind: str, scheme: str, width: int, make_page: Make, visit: Visit
) -> None:
    tab = visit(make_page(kind), width, color_scheme=scheme)
    unfold(tab)
    assert violations(tab.page) == []


def test_a_page_begins_where_a_model_is_wrong(
    page: Path, parity: Path, printed: Path, visit: Visit
) -> None:
    tab, opening = visit(page), read_data(page.read_text())["opening"]
    tokens, at = opening["tokens"], opening["at"]
    assert sum(tokens[:at]) % 2 == csprop.load(parity).task.truth(tokens[:at])
    with torch.no_grad():
        answers = csprop.load(printed).model.double()(torch.tensor([tokens]))[0].argmax(dim=1)
    assert answers[at - 1] != sum(tokens[:at]) % 2
    assert tab.text("#now") == f"{at} of {len(tokens)}"
    assert "which is right" in tab.text(".verdict")
    second = tab.page.locator(".panel >> nth=1")
    assert " is right" in second.locator(".verdict").inner_text()
    assert "wrong" in second.locator(".verdict").get_attribute("class").split()
    assert tab.page.locator("#strip td.wrong.now").count() == 1
    assert second.locator(".then.wrong").count() > 0, "and over time"


def test_a_model_has_one_colour_everywhere(page: Path, visit: Visit) -> None:
    tab, data = visit(page), read_data(page.read_text())
    colours = {each["name"]: each["colour"] for each in data["models"]}
    assert len(set(colours.values())) == 3, "locked, as trained, printed"
    (chart,) = (each for each in data["charts"].values() if each["x"]["label"] == "length")
    lines = {each["name"]: each["colour"] for each in chart["series"]}
    colours["parity, paper, seed 0, as trained"] = colours.pop("parity, paper, seed 0")
    assert lines == colours
    tab.page.select_option("#beside", label="parity, rotor, seed 0, as trained")
    for panel, name in enumerate(("locked", "as trained")):
        number = colours[f"parity, rotor, seed 0, {name}"]
        place = tab.page.locator(".panel").nth(panel)
        assert f"c{number}" in place.get_attribute("class").split()
        ink = f"getComputedStyle(document.documentElement).getPropertyValue('--c{number}')"
        numbers = bytes.fromhex(tab.page.evaluate(ink).strip().removeprefix("#"))
        rgb = f"rgb({', '.join(map(str, numbers))})"
        dot = place.locator(".dot:not(.unused)").first
        assert dot.evaluate("(it) => getComputedStyle(it).fill") == rgb, name
        rows = f"#strip tr:has-text('model {panel + 1}')", f".fit li:has-text('{name}')"
        for where in (place, *map(tab.page.locator, rows)):
            line = where.locator(".swatch .line").first
            assert line.evaluate("(it) => getComputedStyle(it).stroke") == rgb, name


def test_lines_are_drawn_only_between_neighbouring_samples(tmp_path: Path, visit: Visit) -> None:
    page, points = Page("Samples", ""), [(10.0, 1.0), (100.0, 0.9), (1000.0, 0.8)]
    series = [
        Series(name="all", group="all", colour=0, points=points),
        Series(name="few", group="few", colour=1, points=points[::2]),
    ]
    chart = Chart(title="Samples", link=None, x=LENGTH, y=PERCENT, series=series, marks=[])
    page.add("Samples", page.figures(chart))
    (tmp_path / "page.html").write_text(page.html())
    tab = visit(tmp_path / "page.html")
    lines = [tab.page.locator(f".plot path.line.c{number}").get_attribute("d") for number in (0, 1)]
    assert lines[0].count("L") == 2
    assert lines[1].count("L") == 0, "nothing was measured in between"
    assert [tab.page.locator(f".plot .mark.c{number}").count() for number in (0, 1)] == [3, 2]


def test_words_are_in_their_states_and_labels_cover_nothing(make_page: Make, visit: Visit) -> None:
    tab = visit(make_page("learned"))
    boxes = """(selector) => [...document.querySelectorAll(selector)].map((it) => {
        const { left, right, top, bottom } = it.getBoundingClientRect();
        return { text: it.textContent, left, right, top, bottom };
    })"""
    bodies = tab.page.evaluate(boxes, ".machine .state rect")
    names = tab.page.evaluate(boxes, ".machine .state text")
    labels = tab.page.evaluate(boxes, ".machine text.on")
    assert {each["text"] for each in names} == {"in", "out", "locked"}
    for body, name in zip(bodies, names, strict=True):
        assert body["left"] < name["left"] < name["right"] < body["right"], name
    assert len(labels) > 10
    for one in labels:
        for two in [*bodies, *labels]:
            wide = min(one["right"], two["right"]) - max(one["left"], two["left"])
            tall = min(one["bottom"], two["bottom"]) - max(one["top"], two["top"])
            assert one is two or min(wide, tall) < 5, (one, two)  # lines of one label may touch
