"""Models that count in a page: marks on lines of whole numbers, in a real browser, beside Python."""

import random
from pathlib import Path

import pytest

import csprop
from csprop import tasks
from csprop.automata.counting import CounterMachine
from tests.helpers.browser import Visit
from tests.helpers.counters import plain_step
from tests.helpers.zoo import unpack

MARKS = """explorer.panels[0].counters.lines.map(({svg}) => {
    const at = svg.querySelector("circle.tally").getAttribute("cx");
    const labels = [...svg.querySelectorAll("text:not(.count)")];
    const below = labels.find((label) => Math.abs(label.getAttribute("x") - at) < 0.01);
    return [below ? below.textContent : null, svg.querySelector("text.count").textContent];
})"""
"""For each counter the number that stands below the mark, and the one above it."""
EDGES = """explorer.panels[0].counters.lines.map(({svg}) => {
    const labels = [...svg.querySelectorAll("text:not(.count)")];
    const below = (edge) => labels.find(
        (label) => Math.abs(label.getAttribute("x") - edge.getAttribute("x1")) < 0.01);
    return [...svg.querySelectorAll(".edge")].map((edge) => below(edge)?.textContent);
})"""
"""For each counter the numbers at the edges of the window."""


@pytest.mark.parametrize("width", [390, 1440])
def test_the_mark_is_at_the_depth_after_each_token(
    width: int, counting_page: Path, visit: Visit
) -> None:
    tab, text = visit(counting_page, width), "(()())())(("
    tab.write(text)
    slider, depth, good = tab.page.locator("#time"), 0, True
    slider.focus()
    slider.press("Home")
    assert tab.page.evaluate(MARKS) == [["0", "0"]]
    for token in text:
        slider.press("ArrowRight")
        depth += 1 if token == "(" else -1
        good = good and depth >= 0
        shown = str(depth).replace("-", "−")
        assert tab.page.evaluate(MARKS) == [[shown, shown]]
        answer = "yes" if good and depth == 0 else "no"
        assert tab.text(".verdict").startswith(f"{answer}, which is right.")
        assert tab.page.locator(".state.lit title").text_content().endswith(f": {answer}")
        seen = "that it is 0" if not depth else "“1 or more”" if depth > 0 else "“−1 or less”"
        assert tab.page.locator(".counter figcaption").inner_text() == (
            f"c is {shown}: the machine sees {seen}"
        )
    assert tab.page.evaluate(EDGES) == [["−1", "1"]]
    assert tab.wide() == width


@pytest.mark.parametrize("name", ["interleaved", "anbncn", "anb2n", "parenthesis-words"])
def test_every_count_and_answer_is_that_of_python(name: str, tmp_path: Path, visit: Visit) -> None:
    tab, draw, task = visit(unpack(name, tmp_path)), random.Random(0), tasks.get(name)
    machine = csprop.load(f"zoo:{name}").automaton
    assert isinstance(machine, CounterMachine)
    for _ in range(3):
        tokens = draw.choices(range(len(task.vocab)), k=12)
        tab.page.evaluate("(tokens) => explorer.write(tokens)", tokens)
        answers = tab.answers()
        assert answers == [task.truth(tokens[: end + 1]) for end in range(12)]
        assert tab.page.evaluate("explorer.panels[0].truth.slice(1)") == answers
        state, counts, steps = machine.control.start, [0] * machine.counters, []
        for token in tokens:
            state, counts = plain_step(machine, state, counts, token)
            steps.append(counts)
        near = max(abs(count) for counts in steps for count in counts) <= 4
        for t, counts in enumerate(steps, start=1):
            tab.page.evaluate("(t) => explorer.go(t)", t)
            shown = [str(count).replace("-", "−") for count in counts]
            below, above = zip(*tab.page.evaluate(MARKS), strict=True)
            assert list(above) == shown
            if near:  # farther away, not every number is written
                assert list(below) == shown


def test_deep_brackets_are_known_and_right(counting_page: Path, visit: Visit) -> None:
    tab = visit(counting_page, 390)
    tab.page.select_option("#beside", label="none")
    tab.write("(" * 10_000 + ")" * 10_000)
    assert tab.text(".verdict") == "yes, which is right. Right after each of 20,000 tokens."
    assert tab.text("#now") == "20,000 of 20,000"
    assert tab.page.locator("#strip td").count() < 200
    tab.page.evaluate("explorer.go(10000)")
    assert tab.page.evaluate(MARKS) == [["10,000", "10,000"]]
    assert tab.wide() == 390


def test_the_tables_say_what_the_drawings_say(counting_page: Path, visit: Visit) -> None:
    tab = visit(counting_page)
    tab.write(")))")
    panel = tab.page.locator(".panel").first
    panel.locator("summary", has_text="The automaton as a table").click()
    rows = [row.split("\t") for row in panel.locator(".machine tbody tr").all_inner_texts()]
    assert rows[0][:3] == ["0 (start)", "no", "0"]
    assert sorted(rows[0][3].split("\n")) == ["0 if c > 0", "1 if c < 0", "2 if c = 0"]
    assert rows[1:] == [["1", "no", "1", "1"], ["2", "yes", "0", "1"]]
    panel.locator("summary", has_text="The numbers of this step").click()
    panel.locator("details tbody tr", has_text="c").last.wait_for()
    assert panel.locator("details tbody tr").last.inner_text().split() == ["c", "-3", "-1"]
    labels = panel.locator(".machine svg text.on").all_text_contents()
    assert {") if c > 0", ") if c = 0", ") if c < 0"} <= set(labels)
