"""The pictures and tables of runs, machines and certificates in a notebook."""

import re
from base64 import b64decode
from pathlib import Path
from xml.etree import ElementTree

import pytest

import csprop
from csprop.automata.automaton import Automaton, CounterAutomaton
from csprop.notebook import HIGH, TOP, WIDE, curve

NASTY = ("<script>alert(1)</script>", '"><b onload="x">', "&amp;'")
TAGS = {"div", "span", "table", "tr", "th", "td", "img"}
SVG = "{http://www.w3.org/2000/svg}"


def parsed(html: str) -> ElementTree.Element:
    """Checks that it is well-formed, and has nothing that runs or fetches."""
    root = ElementTree.fromstring(html)
    assert {each.tag for each in root.iter()} <= TAGS
    for each in root.iter():
        assert each.attrib.keys() <= {"style", "src", "alt"}
        assert "url(" not in each.get("style", "")
        assert each.get("src", "data:image/svg+xml;base64,").startswith("data:image/svg+xml;base64,")
    for drawn in pictures(root):
        assert "script" not in {each.tag.removeprefix(SVG) for each in drawn.iter()}
    return root


def pictures(root: ElementTree.Element) -> list[ElementTree.Element]:
    found = [each.get("src", "").partition(",")[2] for each in root.iter("img")]
    return [ElementTree.fromstring(b64decode(each)) for each in found]


def text(root: ElementTree.Element) -> str:
    return " ".join(" ".join(root.itertext()).split())


def facts(root: ElementTree.Element) -> dict[str, str]:
    return {row[0].text or "": row[1].text or "" for row in root.iter("tr")}


@pytest.fixture(scope="module")
def run() -> csprop.Run:
    return csprop.train("parity", samples=2000, length=8, epochs=5)


def test_a_run_shows_its_options_its_accuracy_its_proof_and_its_curves(run: csprop.Run) -> None:
    before = parsed(csprop.Run.of(run)._repr_html_())
    assert facts(before)["proof"].startswith("none yet")
    run.certify()
    after = parsed(run._repr_html_())
    shown = facts(after)
    assert shown["proof"] == "proven for all lengths"
    assert shown["model"].startswith(f"1 layer of {run.config.model.width} channels")
    assert shown["accuracy"] == "100% of the held-out answers"
    assert shown["wrong"] == "none of all 256 inputs of length 8"
    for drawn in pictures(after):
        (line,) = drawn.iter(f"{SVG}polyline")
        assert len(line.get("points", "").split()) == len(run.metrics) == 5


def test_a_certificate_shows_what_it_says(run: csprop.Run) -> None:
    found = run.certify()
    shown = parsed(found._repr_html_())
    assert text(shown).startswith("✓ parity: proven for all lengths")
    assert found.statement in text(shown)
    assert facts(shown)["states"] == "2, and 2 in the smallest automaton"
    assert repr(found) == "Certificate(parity: proven for all lengths)"
    wrong = csprop.certify(run.model, csprop.tasks.get("even-pairs"), rounds=0)
    assert text(parsed(wrong._repr_html_())).startswith("✗ even-pairs: not proven")
    assert repr(wrong).startswith("Certificate(even-pairs: not proven")


def test_a_machine_shows_its_size_and_its_picture() -> None:
    task = csprop.tasks.get("parenthesis")
    assert task.counting is not None
    counts = CounterAutomaton.from_machine(task.counting, task.vocab, task.classes)
    shown = parsed(counts._repr_html_())
    assert text(shown) == "CounterAutomaton of 3 states and 1 counter"
    assert len(pictures(shown)) == 1
    assert repr(counts) == "CounterAutomaton(3 states and 1 counter; tokens (, ); classes no, yes)"


def test_a_machine_is_drawn_in_text_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("csprop.automata.drawing.find_spec", lambda name: None)
    machine = Automaton(transitions=((1,), (0,)), outputs=(0, 1), vocab=("<b>",), classes=("x", "y"))
    shown = machine._repr_html_()
    assert "<img" not in shown
    assert "─ &lt;b&gt; ─" in shown
    assert "→ 0 x      1 y\n" in shown


def test_a_large_machine_is_not_drawn() -> None:
    ring = tuple(((state + 1) % 200,) for state in range(200))
    large = Automaton(transitions=ring, outputs=(0,) * 200, start=0, vocab=("a",), classes=("x",))
    shown = parsed(large._repr_html_())
    assert "200 states" in text(shown)
    assert not pictures(shown)
    assert repr(large) == "Automaton(200 states; tokens a; classes x)"


def test_names_of_users_stay_text() -> None:
    label = (NASTY[0], NASTY[1])
    rows = [[NASTY[place] for place in map(int, f"{number:04b}")] for number in range(16)] * 20
    labels = [label[sum(each == NASTY[1] for each in row) % 2] for row in rows]
    labels[3] = label[labels[3] == label[0]]
    learned = csprop.learn(rows, labels)
    assert learned.run is not None
    assert learned.run.certificate is not None
    shown = parsed(learned._repr_html_())
    assert any(NASTY[0] in (cell.text or "") for cell in shown.iter("td"))  # a suspect
    for each in (learned.machine, learned.run, learned.run.certificate):
        assert text(parsed(each._repr_html_()))
        assert "\n" not in repr(each)


def test_a_certificate_that_does_not_hold_is_told_and_not_raised(
    run: csprop.Run, tmp_path: Path
) -> None:
    run.certify()
    run.save_pretrained(tmp_path / "run")
    path = tmp_path / "run" / "certificate.json"
    path.write_text(path.read_text().replace("of any length", "of many a length"))
    shown = facts(parsed(csprop.load(tmp_path / "run")._repr_html_()))
    assert "certificate.json" in shown["proof"]
    assert shown["directory"] == str(tmp_path / "run")


@pytest.mark.parametrize("count", [1, 7, 101])
def test_a_curve_is_at_its_values(count: int) -> None:
    values = [((7 * place) % 11) / 10 for place in range(count)]
    (drawn,) = pictures(parsed(curve("<&>", values, "red", (0, 1)).join(("<div>", "</div>"))))
    (line,) = drawn.iter(f"{SVG}polyline")
    points = [tuple(map(float, each.split(","))) for each in line.get("points", "").split()]
    for epoch, ((x, y), value) in enumerate(zip(points, values, strict=True)):
        assert x == pytest.approx(4 + (WIDE - 8) * epoch / max(count - 1, 1), abs=0.06)
        assert y == pytest.approx(TOP + 4 + (HIGH - 8) * (1 - value), abs=0.06)
    (title,) = [each.text for each in drawn.iter(f"{SVG}text") if each.get("y") == "13"]
    assert title == "<&>"


def test_numbers_that_are_not_finite_are_left_out() -> None:
    (drawn,) = pictures(parsed(curve("loss", [1.0, float("nan"), 0.1, float("inf")], "red").join(
        ("<div>", "</div>")
    )))  # fmt: skip
    (line,) = drawn.iter(f"{SVG}polyline")
    assert not re.search("nan|inf", line.get("points", ""))
    assert len(line.get("points", "").split()) == 2
