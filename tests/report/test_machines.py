"""Pages of routers and of learned or compiled machines: places, states, words."""

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import csprop
from csprop.errors import InputError
from csprop.learning.learn import learn
from csprop.training.checkpoint import CERTIFICATE, LOCKED, RESULT, RunFolder
from csprop.training.scores import interval
from tests.helpers.browser import Tab, Visit
from tests.report.conftest import write_html, write_page

FLIPPED = (7, 100, 150, 200, 260, 333, 400, 450, 520, 580)
"""Lines with a wrong label."""


def locked_out(events: list[str]) -> int:
    """Failures in a row since the last success; three of them lock the account for good."""
    failures = 0
    for event in events:
        if failures < 3:
            failures = failures + 1 if event == "fail" else 0
    return failures


@pytest.fixture(scope="session")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What was learned from a file in which ten labels are wrong."""
    folder, draw, rows = tmp_path_factory.mktemp("learned"), random.Random(0), []
    for line in range(1, 601):
        events = [draw.choice(["fail", "fail", "ok"]) for _ in range(draw.randint(1, 12))]
        locked = (locked_out(events) == 3) != (line in FLIPPED)
        rows.append({"sequence": events, "label": "locked" if locked else "<b>open</b>"})
    (folder / "events.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert learn(folder / "events.jsonl", out=folder / "run").verdict.clear
    return folder / "run"


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A machine of 60 states, too many for one row of places."""
    path = tmp_path_factory.mktemp("compiled") / "run"
    csprop.compile(csprop.example("football.json"), out=path)
    return path


def lit(tab: Tab, row: int) -> list[int]:
    """The numbers of the places that are lit in a row: 0 is before the last token, −1 after it."""
    drawn = tab.page.locator(".places svg > g:has(.place)")
    titles = drawn.nth(row if row >= 0 else drawn.count() - 1).locator(".place.lit title")
    return [int(title.removeprefix("place ")) for title in titles.all_text_contents()]


def test_stepping_moves_the_lit_place_and_the_state(learned: Path, visit: Visit) -> None:
    tab = visit(learned)
    draw = random.Random(1)
    events = ["fail", "ok", "fail", "fail", *(draw.choice(["fail", "ok"]) for _ in range(12))]
    tab.write(" ".join(events))
    slider = tab.page.locator("#time")
    slider.focus()
    slider.press("Home")
    assert lit(tab, -1) == [0]
    assert lit(tab, 0) == []
    assert tab.page.locator(".places .arrow").count() == 0, "no token has sent anything"
    meanings, last = {0: 0}, 0  # a place to the number of failures in a row
    for t, event in enumerate(events, start=1):
        slider.press("ArrowRight")
        (place,) = lit(tab, -1)
        truth = locked_out(events[:t])
        assert meanings.setdefault(place, truth) == truth
        assert lit(tab, 0) == [last], "above is what was before"
        assert tab.page.locator(".places .arrow").count() == 4, "from each place that is in use"
        assert tab.page.locator(".places .arrow.lit").count() == 1
        answer = "locked" if truth == 3 else "<b>open</b>"
        assert tab.page.locator(".state.lit title").text_content() == f"state {place}: {answer}"
        words = f"from place {last} to place {place}" if place != last else f"in place {place}"
        assert words in tab.text(".places figcaption")
        assert f": {event} " in tab.text(".places figcaption")
        last = place
    assert sorted(meanings.values()) == [0, 1, 2, 3]


def test_many_places_form_a_grid(compiled: Path, visit: Visit) -> None:
    machine = csprop.load(compiled).automaton
    assert isinstance(machine, csprop.Automaton)
    tab = visit(compiled, 360)
    assert tab.page.locator(".place").count() == len(machine) == 60
    tab.page.locator("summary").first.click()
    box = tab.page.locator(".places svg").bounding_box()
    assert 0 <= box["x"] <= box["x"] + box["width"] <= 360 == tab.wide()
    state, before, draw = machine.start, machine.start, random.Random(2)
    tokens = [draw.randrange(2) for _ in range(20)]
    tab.write("".join("ab"[token] for token in tokens))
    for t, token in enumerate(tokens, start=1):
        before, state = state, machine.transitions[state][token]
        tab.page.locator("#time").fill(str(t))
        assert lit(tab, -1) == [state]
        assert tab.page.locator(".places .arrow").count() == (before != state)
    assert "trained on length" not in tab.text("#strip")


@pytest.mark.parametrize(
    "cells",
    [
        [csprop.Rotor(), csprop.Router(places=4, maps=3)],
        [csprop.Router(places=4), csprop.Rotor()],
        [csprop.Router(places=4), csprop.Router(places=4, maps=2)],
    ],
)
def test_layers_of_different_kinds_stand_beside_each_other(
    cells: list[csprop.Cell], tmp_path: Path, visit: Visit
) -> None:
    run = csprop.train(
        "tomita-2", preset="router", epochs=1, samples=100, width=8, cells=cells, out=tmp_path / "run"
    )
    routers = [layer for layer, cell in enumerate(cells) if isinstance(cell, csprop.Router)]
    tab = visit(tmp_path / "run")
    tab.write("1011")
    assert tab.page.locator(".dot").count() == 8 * (2 - len(routers))
    assert tab.page.locator(".places").count() == len(routers)
    with torch.no_grad():
        state = run.model.eval()(torch.tensor([[1, 0, 1, 1]]), return_state=True)[1][0]  # (L, 2, D)
    for number, layer in enumerate(routers):
        rows = tab.page.locator(".places").nth(number).locator("svg > g:has(.place)")
        titles = rows.nth(1).locator(".lit title").all_text_contents()
        places = state[layer].norm(dim=0).nonzero().flatten().tolist()
        assert titles == [f"place {place}" for place in places]
        assert len(places) == 2, "one of each group"
    tab.page.locator("summary", has_text="How to read this").click()
    assert tab.page.locator("#about-dots").is_visible() == (len(routers) < 2)
    tab.page.locator("summary", has_text="The numbers of this step").click()
    tab.page.locator(".panel tbody tr").nth(15).wait_for()  # opening is told a moment later
    assert tab.page.locator(".panel tbody tr").count() == 16


def test_a_page_tells_what_was_learned(learned: Path, visit: Visit) -> None:
    tab = visit(learned)
    text = tab.text("main")
    assert "events.jsonl: a machine of 4 states, which agrees with 590 of 600 rows." in text
    assert "10 rows disagree with it, and may be labelled wrongly" in text
    right, of = map(int, re.findall(r"right on (\d+) of (\d+) of their labels", text)[0])
    assert right < of, "some wrong labels are held out"
    share, (low, high) = right / of, interval(right, of)
    assert f"{share:.1%}; 95% interval {low:.1%} to {high:.1%}" in text
    tab.page.locator("summary", has_text="The suspects").click()
    lines = tab.page.locator("details[open] tbody th").all_inner_texts()
    assert lines == list(map(str, FLIPPED))
    assert "computes what its minimal automaton of 4 states does" in text
    assert "Training" not in tab.page.locator("h2").all_inner_texts()
    assert tab.page.locator("main b").count() == 0, "names are text"
    assert tab.page.locator("#model option").all_inner_texts() == ["events.jsonl, learned, seed 0"]
    held_out = tab.page.locator("h2:text('Runs') + .fit td").all_inner_texts()
    assert f"{share:.1%}" in held_out


def test_a_page_tells_what_was_compiled(compiled: Path, tmp_path: Path, visit: Visit) -> None:
    tab = visit(write_page(tmp_path / "page.html", compiled, times=(1,)))
    text = tab.text("main")
    assert "Not trained: football.json, a machine of 60 states, is written into the weights" in text
    assert "held-out accuracy" not in text.lower()
    assert "Trained on length" not in text
    assert tab.text("[data-chart] .legend") == "compiled, exact"


def test_rows_that_are_gone_are_not_claimed(learned: Path, tmp_path: Path) -> None:
    rows = learned.parent / "events.jsonl"
    rows.rename(tmp_path / "elsewhere.jsonl")
    try:
        html = write_html(learned)
    finally:
        (tmp_path / "elsewhere.jsonl").rename(rows)
    assert "in 600 rows; what it found is not checked now" in html
    assert "agrees with" not in html
    assert "not proven: its certificate could not be checked" in html


def test_a_learned_machine_without_its_certificate_is_not_claimed(tmp_path: Path) -> None:
    learn("parity", samples=200, out=tmp_path / "run")
    for name in (CERTIFICATE, LOCKED):
        RunFolder(tmp_path / "run").remove(name)
    html = write_html(tmp_path / "run")
    assert "what it found is not checked now" in html
    assert "proven for" not in html


def test_labels_within_a_row_are_listed_with_their_place(tmp_path: Path) -> None:
    draw, rows = random.Random(0), []
    for line in range(1, 201):
        tokens = [draw.randrange(2) for _ in range(8)]
        labels = [sum(tokens[: t + 1]) % 2 for t in range(8)]
        labels[4] ^= line == 77
        rows.append({"sequence": "".join(map(str, tokens)), "label": labels})
    (tmp_path / "steps.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert learn(tmp_path / "steps.jsonl", out=tmp_path / "run").verdict.states == 2
    wrong = rows[76]
    label = wrong["label"][4]
    cells = re.findall(r'<th scope="row">77</th>(.*?)</tr>', write_html(tmp_path / "run"))[0]
    assert re.findall(r">([^<]+)</td>", cells) == [wrong["sequence"], str(label), str(1 - label), "5"]


def test_more_suspects_than_a_page_lists(learned: Path, tmp_path: Path) -> None:
    run = shutil.copytree(learned, tmp_path / "run")
    first = (learned / "suspects.jsonl").read_text().splitlines()[0]
    (run / "suspects.jsonl").write_text(f"{first}\n" * 1234)
    html = write_html(run)
    assert "The first 20 of 1,234 suspects" in html
    assert html.count(f'<th scope="row">{FLIPPED[0]}</th>') == 20


@pytest.mark.parametrize(
    "damage",
    [
        3, {}, {"rows": 3}, {"held_out": 0}, {"agreed": 601}, {"held_out_right": "all"},
        {"majority": 2}, {"rows": True},
        b"{}", b"3", b"nonsense", b'{"line": "7"}', b"\xff",
    ],
)  # fmt: skip
def test_damaged_numbers_and_suspects_are_one_sentence(
    damage: Any, learned: Path, tmp_path: Path
) -> None:
    folder = RunFolder(shutil.copytree(learned, tmp_path / "run"))
    name = RESULT
    if isinstance(damage, bytes):
        name = "suspects.jsonl"
        (folder.path / name).write_bytes((folder.path / name).read_bytes() + damage)
    else:
        result = folder.read_json(RESULT)
        numbers = result["verdict"] | damage if isinstance(damage, dict) and damage else damage
        folder.write_json(RESULT, result | {"verdict": numbers})
    with pytest.raises(InputError, match=f"{name}: is malformed; the run is damaged"):
        write_html(folder.path)
