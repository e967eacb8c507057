"""Pages of every kind fit every window, are accessible, are small, and begin where models differ."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import csprop
from csprop.learning.learn import learn
from csprop.report import runs
from tests.helpers.browser import Tab
from tests.report.conftest import certified

Visit = Callable[..., Tab]
KINDS = ["one", "two", "ten", "group", "learned", "counter"]
WIDE = """[...document.querySelectorAll("table")].filter((it) => it.offsetWidth).filter((it) =>
    it.scrollWidth > it.clientWidth + 1 || it.scrollWidth > it.parentElement.clientWidth + 1
).map((it) => it.outerHTML.slice(0, 200))"""
"""Tables that are wider than their place, which would have to be scrolled or are cut off."""
OUTSIDE = """[...document.querySelectorAll(".machine > svg text, .places text, .badge, h1, h3, td, th")]
    .filter((it) => it.getBoundingClientRect().width)
    .filter((it) => it.getBoundingClientRect().right > innerWidth + 1
        || it.getBoundingClientRect().left < -1)
    .map((it) => it.textContent)"""
UNFOLD = "document.querySelectorAll('details').forEach((it) => { it.open = true; })"


@pytest.fixture(scope="session")
def football(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rotor that has learned A5, with a page where its sixty states are a ball."""
    return certified(tmp_path_factory.mktemp("runs") / "a5", task="group-A5")


@pytest.fixture(scope="session")
def pages(
    page: Path,
    parity: Path,
    football: Path,
    brackets: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("fit")
    for seed in range(10):
        shutil.copytree(parity, folder / "ten" / f"seed-{seed}")
    assert learn(csprop.example("events.jsonl"), out=folder / "events").verdict.clear
    found = {"two": page}
    shown = {"one": parity, "ten": folder / "ten", "group": football, "learned": folder / "events",
             "counter": brackets}  # fmt: skip
    for name, run in shown.items():
        found[name] = folder / f"{name}.html"
        found[name].write_text(runs.page([run]))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_everything_fits(kind: str, pages: dict[str, Path], visit: Visit) -> None:
    for width in (1440, 1024, 390):
        tab = visit(pages[kind], width)
        for _ in range(2):  # as it is opened, and with everything unfolded
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
            assert tab.page.evaluate(WIDE) == []
            assert tab.page.evaluate(OUTSIDE) == []
            tab.page.evaluate(UNFOLD)
            tab.page.locator("details table").first.wait_for()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_keeps_people_out(kind: str, scheme: str, pages: dict[str, Path], visit: Visit) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    for width in (1440, 390):
        tab = visit(pages[kind], width, color_scheme=scheme)
        tab.page.evaluate(UNFOLD)
        tab.page.locator("details table").first.wait_for()
        found = axe.Axe().run(tab.page).response["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_small(kind: str, pages: dict[str, Path]) -> None:
    assert pages[kind].stat().st_size < 1_000_000


def data(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text().split('id="data">')[1].split("</script>")[0])


def test_a_page_begins_where_a_model_is_wrong(
    page: Path, parity: Path, printed: Path, visit: Visit
) -> None:
    tab, opening = visit(page), data(page)["opening"]
    tokens, at = opening["tokens"], opening["at"]
    assert sum(tokens[:at]) % 2 == csprop.load(parity).task.truth(tokens[:at])
    with torch.no_grad():
        answers = csprop.load(printed).model.double()(torch.tensor([tokens]))[0].argmax(dim=1)
    assert answers[at - 1] != sum(tokens[:at]) % 2
    assert tab.text("#now") == f"{at} of {len(tokens)}"
    assert "which is right" in tab.page.locator(".verdict").first.inner_text()
    wrong = tab.page.locator(".panel >> nth=1").locator(".verdict")
    assert " is right" in wrong.inner_text()
    assert "wrong" in wrong.get_attribute("class").split()
    assert tab.page.locator("#strip td.wrong.now").count() == 1
    assert tab.page.locator(".panel >> nth=1").locator(".then.wrong").count() > 0, "and over time"


def test_a_model_has_one_colour_everywhere(page: Path, visit: Visit) -> None:
    tab, found = visit(page), data(page)
    colours = {each["name"]: each["colour"] for each in found["models"]}
    assert len(set(colours.values())) == 3, "locked, as trained, printed"
    (chart,) = (each for each in found["charts"].values() if each["x"]["label"] == "length")
    lines = {each["name"]: each["colour"] for each in chart["series"]}
    colours["parity, paper, seed 0, as trained"] = colours.pop("parity, paper, seed 0")
    assert lines == colours
    for name, panel in (("locked", 0), ("as trained", 1)):
        if panel:
            tab.page.select_option("#beside", label=f"parity, rotor, seed 0, {name}")
        number = colours[f"parity, rotor, seed 0, {name}"]
        place = tab.page.locator(".panel").nth(panel)
        assert f"c{number}" in place.get_attribute("class").split()
        ink = f"getComputedStyle(document.documentElement).getPropertyValue('--c{number}')"
        hexadecimal = tab.page.evaluate(ink).strip()
        shown = [int(hexadecimal[at : at + 2], 16) for at in (1, 3, 5)]
        rgb = f"rgb({', '.join(map(str, shown))})"
        for selector, style in ((".dot:not(.unused)", "fill"), (".swatch .line", "stroke")):
            element = place.locator(selector).first
            assert element.evaluate(f"(it) => getComputedStyle(it).{style}") == rgb, (name, selector)
        rows = tab.page.locator(f"#strip tr:has-text('model {panel + 1}') .swatch .line")
        assert rows.evaluate("(it) => getComputedStyle(it).stroke") == rgb
        table = tab.page.locator(f".fit li:has-text('{name}') .swatch .line").first
        assert table.evaluate("(it) => getComputedStyle(it).stroke") == rgb


def test_what_is_proven_has_no_confidence(page: Path, visit: Visit) -> None:
    tab = visit(page)
    panels = tab.page.locator(".panel")
    assert panels.nth(0).locator(".badge").inner_text() == "proven for all lengths"
    assert panels.nth(1).locator(".badge").inner_text() == "not certified"
    assert "sure" not in panels.nth(0).inner_text()
    assert "% sure" in panels.nth(1).inner_text()
    rows = [tab.page.locator(f"#strip tr:has-text('model {number}')") for number in (1, 2)]
    assert "%" not in rows[0].inner_text()
    assert rows[0].locator("td[style]").count() == 0
    assert "%" in rows[1].inner_text()


def test_lines_are_drawn_only_between_neighbouring_samples(tmp_path: Path, visit: Visit) -> None:
    from csprop.report.charts import LENGTH, PERCENT, Chart, Series
    from csprop.report.page import Page

    made = Page("Samples", "")
    whole = [(10.0, 1.0), (100.0, 0.9), (1000.0, 0.8)]
    series = [Series(name="all", group="all", colour=0, points=whole),
              Series(name="few", group="few", colour=1, points=[whole[0], whole[2]])]  # fmt: skip
    made.add("Samples", made.figures(
        Chart(title="Samples", link=None, x=LENGTH, y=PERCENT, series=series, marks=[])
    ))  # fmt: skip
    path = tmp_path / "page.html"
    path.write_text(made.html())
    tab = visit(path)
    paths = {number: tab.page.locator(f".plot path.line.c{number}") for number in (0, 1)}
    assert paths[0].get_attribute("d").count("L") == 2
    assert paths[1].get_attribute("d").count("L") == 0, "nothing was measured in between"
    assert tab.page.locator(".plot .mark.c0").count() == 3
    assert tab.page.locator(".plot .mark.c1").count() == 2


def test_a_group_turns_in_space(pages: dict[str, Path], visit: Visit) -> None:
    tab = visit(pages["group"])
    solid = tab.page.locator(".solid canvas")
    places = "explorer.panels[0].drawing.solid.shown.map(({x, y}) => [x, y])"
    still = tab.page.evaluate(places)
    assert len(still) == 60
    assert "60 states: now in state" in solid.get_attribute("aria-label")
    tab.page.wait_for_timeout(100)
    assert tab.page.evaluate(places) == still, "nothing moves where motion is not wanted"
    tab.page.locator(".solid").focus()
    tab.page.keyboard.press("ArrowRight")
    turned = tab.page.evaluate(places)
    assert turned != still
    tab.page.locator(".solid").scroll_into_view_if_needed()
    box = tab.page.locator(".solid").bounding_box()
    tab.page.mouse.move(box["x"] + 100, box["y"] + 100)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + 200, box["y"] + 130)
    tab.page.mouse.up()
    assert tab.page.evaluate(places) != turned
    machine = csprop.load(data_run(pages)).automaton
    assert isinstance(machine, csprop.Automaton)
    tab.page.locator("#sequence").fill("abba")
    state = machine.start
    for t, token in enumerate([0, 1, 1, 0], start=1):
        state = machine.transitions[state][token]
        tab.page.locator("#time").fill(str(t))
        assert tab.page.evaluate("explorer.panels[0].drawing.solid.path.at(-1)") == state
        output = machine.outputs[state]
        assert output is not None
        answer = machine.classes[output]
        assert f"now in state {state}, which answers {answer}" in solid.get_attribute("aria-label")


def data_run(pages: dict[str, Path]) -> Path:
    """The run of the page of a group, as the page itself names it."""
    return Path(pages["group"].read_text().split("<small>")[1].split("</small>")[0])


def test_a_group_turns_by_itself_until_it_is_stopped(pages: dict[str, Path], visit: Visit) -> None:
    tab = visit(pages["group"], reduced_motion="no-preference")
    turned = "JSON.stringify(explorer.panels[0].drawing.solid.turned)"
    tab.page.locator(".solid").scroll_into_view_if_needed()
    before = tab.page.evaluate(turned)
    for _ in range(50):
        tab.page.wait_for_timeout(100)
        if tab.page.evaluate(turned) != before:
            break
    else:
        pytest.fail("it does not turn")
    tab.page.get_by_role("button", name="Stop turning").click()
    tab.page.wait_for_timeout(100)
    before = tab.page.evaluate(turned)
    tab.page.wait_for_timeout(200)
    assert tab.page.evaluate(turned) == before


def test_words_are_in_their_states_and_labels_cover_nothing(
    pages: dict[str, Path], visit: Visit
) -> None:
    tab = visit(pages["learned"])
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
    apart = [*bodies, *labels]
    assert len(labels) > 10
    for one in labels:
        for two in apart:
            if one is two:
                continue
            wide = min(one["right"], two["right"]) - max(one["left"], two["left"])
            tall = min(one["bottom"], two["bottom"]) - max(one["top"], two["top"])
            assert min(wide, tall) < 5, (one, two)  # lines of one label may touch
