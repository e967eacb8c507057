"""The explorer in a real browser says what Python says, and can be used by mouse and keyboard."""

import json
import random
import re
from pathlib import Path

import pytest
import torch

import csprop
from tests.helpers.browser import Visit
from tests.helpers.zoo import unpack


def test_every_prefix_is_predicted_as_by_python(
    page: Path, parity: Path, printed: Path, visit: Visit
) -> None:
    tab, draw = visit(page), random.Random(0)
    models = csprop.load(parity).locked, csprop.load(printed).model
    for length in (1, 40):
        tokens = [draw.randrange(2) for _ in range(length)]
        tab.write("".join(map(str, tokens)))
        for number, model in enumerate(models):
            assert model is not None
            with torch.no_grad():
                chances = model(torch.tensor([tokens])).double().softmax(dim=2)[0]
            confidence, best = chances.max(dim=1)
            assert tab.answers(number) == best.tolist()
            sure = tab.page.evaluate(
                f"explorer.panels[{number}].said.slice(1).map((it) => it.confidence)"
            )
            if number == 0:
                assert set(sure) == {None}, "a proven answer is certain"
            else:
                assert sure == pytest.approx(confidence.tolist(), abs=1e-5)
        assert tab.text(".verdict").startswith(["even", "odd"][sum(tokens) % 2])
        assert (f"Right after each of {length} tokens." in tab.text(".verdict")) == (length > 1)
    badges = tab.page.locator(".panel .badge").all_inner_texts()
    assert badges == ["proven for all lengths", "not certified"]
    sure = ["sure" in panel.inner_text() for panel in tab.page.locator(".panel").all()]
    rows = [tab.page.locator(f"#strip tr:has-text('model {number}')") for number in (1, 2)]
    assert sure == ["%" in row.inner_text() for row in rows] == [False, True]


def test_stepping_and_scrubbing_move_all_of_it(page: Path, parity: Path, visit: Visit) -> None:
    tab = visit(page)
    tokens = [1, 0, 1, 1, 0]
    tab.write("10110")
    assert tab.text("#now") == "5 of 5"
    forward = tab.page.locator("#forward")
    assert forward.get_attribute("aria-disabled") == "true"
    forward.click(force=True)
    assert tab.text("#now") == "5 of 5"
    assert tab.page.evaluate("document.activeElement.id") == "forward", "the focus stays"
    truth = ["even", "odd", "odd", "even", "odd", "odd"]
    for expected in (4, 3):
        tab.page.click("#back")
        assert tab.text("#now") == f"{expected} of 5"
        assert tab.page.locator("#strip td.now").first.inner_text() == str(expected)
    slider = tab.page.locator("#time")
    slider.focus()
    slider.press("Home")
    assert tab.text("#now") == "0 of 5"
    assert "Nothing read yet" in tab.text(".verdict")
    machine = csprop.load(parity).automaton
    assert isinstance(machine, csprop.Automaton)
    state = machine.start
    for t, token in enumerate(tokens, start=1):
        slider.press("ArrowRight")
        state = machine.transitions[state][token]
        lit = tab.page.locator(".state.lit title").text_content()
        assert lit == f"state {state}: {truth[t]}"
        assert tab.text(".verdict").startswith(truth[t])


def test_the_drawings_have_their_tables(page: Path, visit: Visit) -> None:
    tab = visit(page)
    tab.write("1")
    tab.page.locator("summary", has_text="The automaton as a table").click()
    rows = tab.page.locator(".machine tbody tr").all_inner_texts()
    assert [row.split() for row in rows] == [["0", "(start)", "even", "0", "1"], ["1", "odd", "1", "0"]]
    tab.page.locator(".panel >> nth=1").locator("summary").click()
    rows_shown = tab.page.locator(".panel >> nth=1 >> tbody tr")
    rows_shown.first.wait_for()  # the table is made when it is opened
    assert rows_shown.count() == 3 * 64


def test_the_dots_are_the_states(page: Path, printed: Path, visit: Visit) -> None:
    tab = visit(page)
    tab.write("110")
    model = csprop.load(printed).model
    with torch.no_grad():
        state = model(torch.tensor([[1, 1, 0]]), return_state=True)[1][0]  # (L, 2, D)
    state = state / state.norm(dim=1, keepdim=True).clamp(min=1)
    dots = tab.page.evaluate(
        """explorer.panels[1].dots.map((layer) => layer.map(
            (dot) => [+dot.getAttribute("cx"), -dot.getAttribute("cy")]))"""
    )
    torch.testing.assert_close(torch.tensor(dots), state.transpose(1, 2), atol=2e-4, rtol=0)


def test_playing_reaches_the_end_and_stops(page: Path, visit: Visit) -> None:
    tab = visit(page)
    tab.stop_the_clock()
    tab.write("101")
    tab.page.click("#play")
    for read in range(3):
        assert tab.text("#play") == "Pause"
        assert tab.text("#now") == f"{read} of 3"
        tab.page.clock.run_for(450)
    assert tab.text("#now") == "3 of 3"
    assert tab.text("#play") == "Play"
    assert "even" in tab.page.locator("#said").text_content(), "what comes out is said"


DOTS = """explorer.panels.map((panel) => panel.dots.map((layer) => layer.map(
    (dot) => [dot.getAttribute("cx"), dot.getAttribute("cy")])))"""
TALLIES = """explorer.panels[0].counters.lines.map(
    ({svg}) => svg.querySelector("circle.tally").getAttribute("cx"))"""


@pytest.mark.parametrize(("places", "counts"), [(DOTS, False), (TALLIES, True)])
def test_marks_end_where_they_would_without_the_movement(
    places: str, counts: bool, page: Path, counting_page: Path, visit: Visit
) -> None:
    path, text = (counting_page, "((()") if counts else (page, "1011")
    still, moving = visit(path), visit(path, reduced_motion="no-preference")
    moving.stop_the_clock()
    for tab in (still, moving):
        tab.write(text)
    before = still.page.evaluate(places)
    for tab in (still, moving):
        tab.page.click("#back")
    after = still.page.evaluate(places)
    moving.page.clock.run_for(100)
    assert moving.page.evaluate(places) not in (before, after), "they are on their way"
    moving.page.clock.run_for(1000)
    assert moving.page.evaluate(places) == after != before


def test_only_models_of_the_same_task_stand_beside_each_other(tmp_path: Path, visit: Visit) -> None:
    for name in ("parity", "mod3"):
        unpack(name, tmp_path / "runs")
    tab = visit(tmp_path / "runs")
    tab.page.select_option("#model", label="parity, rotor, seed 0, locked")
    listed = tab.page.locator("#beside option").all_inner_texts()
    assert listed == ["none", "parity, rotor, seed 0, as trained"]
    tab.page.select_option("#beside", label="none")
    assert tab.page.locator(".panel").count() == 1
    tab.page.select_option("#model", label="mod3, rotor, seed 0, locked")
    assert tab.page.locator("#beside option").count() == 2
    assert tab.page.locator(".panel h3 span").first.inner_text() == "mod3, rotor, seed 0, locked"
    assert tab.page.locator("#sequence").input_value()
    assert tab.text("#question").startswith("mod3: ")


def test_a_word_that_is_not_a_token_is_named(page: Path, visit: Visit) -> None:
    tab = visit(page)
    tab.write("01x1")
    assert tab.text("#complaint") == "“x” at position 3 is not a token here: write 0, 1."
    tab.write("0" * 20001)
    assert "20,001 tokens are too many" in tab.text("#complaint")
    tab.write("0 1\n1")
    assert tab.text("#complaint") == ""
    assert tab.text("#now") == "3 of 3"
    tab.page.click("#clear")
    assert tab.text("#now") == "0 of 0"
    tab.page.click("#play", force=True)
    assert tab.text("#play") == "Play", "there is nothing to play"


@pytest.mark.parametrize("width", [360, 1440])
def test_everything_is_reached_by_tab_and_has_a_name(width: int, page: Path, visit: Visit) -> None:
    tab = visit(page, width)
    name = """() => {
        const it = document.activeElement;
        if (it === document.body) return null;
        const named = it.getAttribute("aria-label") || it.labels?.[0]?.textContent || it.textContent;
        return [it.id || it.tagName, named.trim(), it.getBoundingClientRect().width > 0];
    }"""
    seen: dict[str, str] = {}
    for _ in range(150):
        tab.page.keyboard.press("Tab")
        focused = tab.page.evaluate(name)
        if focused is None:
            break
        who, named, visible = focused
        assert named, f"{who} has no name"
        assert visible, f"{who} cannot be seen"
        seen[who] = named
    else:
        pytest.fail("Tab never comes to the end of the page")
    wanted = "model beside sequence another clear play back time SUMMARY DIV"
    assert set(wanted.split()) <= seen.keys()
    assert tab.wide() == width


def test_a_label_with_markup_is_text(tmp_path: Path, visit: Visit) -> None:
    evil = '<img src=x onerror="window.caught=1"></script><script>window.caught=1</script>'
    token = "<b>$x</b>"
    rows = [
        {"sequence": [token] * length + ["b"] * ones, "label": [evil, "no & no"][ones % 2]}
        for length in range(1, 8)
        for ones in range(8)
    ]
    data = tmp_path / "evil <i>.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)))
    run = tmp_path / "run <u>"
    csprop.train(data, out=run, preset="rotor", epochs=2, width=4)
    tab = visit(run)
    tab.write(f"{token} b")
    assert tab.page.evaluate("window.caught") is None
    assert tab.page.locator("main img, main b, main u, main i").count() == 0
    assert tab.page.locator("#strip td.token").first.inner_text() == token
    assert re.match(r"<img|no & no", tab.text(".verdict"))
    tab = visit(run, 360)
    tab.write(f"{token} b " * 40)
    for time in ("80", "40", "1"):  # long names leave the present token in sight
        tab.page.locator("#time").fill(time)
        box = tab.page.locator("#strip td.now").first.bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 360
    assert tab.wide() == 360
