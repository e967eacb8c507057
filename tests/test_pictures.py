"""The animated picture of the README: one file without scripts, and its facts are true."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import csprop
from csprop.training.scores import percent

PICTURE = Path(__file__).parents[1] / "docs" / "turning.svg"
ROWS_END = 200  # below are the panels
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def drawing() -> ElementTree.Element:
    return ElementTree.parse(PICTURE).getroot()


@pytest.fixture(scope="module")
def facts(drawing: ElementTree.Element) -> dict[str, Any]:
    return json.loads(drawing.findtext(f"{SVG}metadata") or "")


def count_squares(drawing: ElementTree.Element, kind: str) -> Counter[float]:
    """Count the squares of a kind, right or wrong, at each x in the rows of the answers."""
    squares: Counter[float] = Counter()
    for group in drawing.iter(f"{SVG}g"):
        place = re.fullmatch(r"translate\(([\d.]+) (\d+)\)", group.get("transform", ""))
        if place and group.find(f"{SVG}rect[@class='{kind}']") is not None and int(place[2]) < ROWS_END:
            squares[float(place[1])] += 1
    return squares


def test_the_picture_is_one_small_file_without_scripts() -> None:
    text = PICTURE.read_text()
    assert len(text) < 150_000
    addresses = re.findall(r"\w+://[^\"' )]+", text)
    assert addresses == ["http://www.w3.org/2000/svg"], "the namespace alone, which nobody fetches"
    assert not re.search(r"<script|\bon\w+=|href|url\(|@import|@font-face|<image|<foreignObject", text)


def test_the_picture_has_two_colour_schemes_and_can_stand_still(drawing: ElementTree.Element) -> None:
    style = drawing.findtext(f"{SVG}style") or ""
    light, dark = re.findall(r":root\{(.*?)\}", style, re.DOTALL)
    names = [re.findall(r"--\w+", scheme) for scheme in (light, dark)]
    assert names[0] == names[1]
    assert set(re.findall(r"var\((--\w+)\)", style)) <= set(names[0])
    before, moving = style.split("@media(prefers-reduced-motion:no-preference)")
    assert "prefers-color-scheme:dark" in before
    assert "animation" not in before
    assert "@keyframes" in moving


def test_every_animated_element_has_keyframes(drawing: ElementTree.Element) -> None:
    made = re.findall(r"@keyframes (\w+)", drawing.findtext(f"{SVG}style") or "")
    names = {name for element in drawing.iter() for name in element.get("class", "").split()}
    assert {name for name in names if re.fullmatch(r"a\d+", name)} == set(made)


def test_the_machine_is_right_after_every_token_and_the_printed_model_is_wrong_soon(
    facts: dict[str, Any],
) -> None:
    task, tokens, trained = csprop.tasks.get(facts["task"]), facts["tokens"], facts["trained_on"]
    states = [0]
    for token in tokens:
        states.append(facts["machine"][states[-1]][token])
    truth = [task.truth(tokens[:end]) for end in range(1, len(tokens) + 1)]
    assert facts["truth"] == facts["locked"] == states[1:] == truth
    right = [said == true for said, true in zip(facts["printed"], facts["truth"], strict=True)]
    assert right[trained - 1]
    assert not all(right[trained : trained + 3])


def test_the_squares_are_the_answers(drawing: ElementTree.Element, facts: dict[str, Any]) -> None:
    right, wrong = count_squares(drawing, "right"), count_squares(drawing, "wrong")
    columns = sorted(right | wrong)
    assert len(columns) == len(facts["tokens"])
    for step, x in enumerate(columns):
        asked = step >= facts["trained_on"] - 1
        missed = asked and facts["printed"][step] != facts["truth"][step]
        assert (wrong[x], right[x]) == (missed, 1 + asked - missed)


def test_the_words_are_the_facts(drawing: ElementTree.Element, facts: dict[str, Any]) -> None:
    words = [text.text for text in drawing.iter(f"{SVG}text")]
    assert facts["verdict"] in words
    trained, longest = facts["trained_on"], len(facts["tokens"])
    at, beyond = percent(facts["at_trained"]), percent(facts["beyond"])
    assert f"{at} right at {trained}, {beyond} at {trained + 1}–{longest}" in words
    row = "".join(map(str, facts["tokens"]))
    tokens = [t.text for t in drawing.iter(f"{SVG}text") if t.get("class") == "token m"]
    assert "".join(map(str, tokens)) == row
    assert row in (drawing.findtext(f"{SVG}desc") or "")


def test_the_proof_in_the_picture_holds(facts: dict[str, Any]) -> None:
    """The rotor, trained again as the picture's was."""
    run = csprop.train(facts["task"], seed=facts["seed"], progress=False)
    certificate = run.certify(progress=False)
    assert certificate.verdict == facts["verdict"]
    assert isinstance(certificate.automaton, csprop.Automaton)
    assert [list(row) for row in certificate.automaton.transitions] == facts["machine"]
