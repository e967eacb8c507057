"""Automata that count: programs and pictures, each beside the definition of the machine."""

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from csprop.automata.arrows import counter_names, describe_views, rules
from csprop.automata.automaton import CounterAutomaton
from csprop.automata.drawing import draw
from csprop.automata.export import to_dot, to_python
from tests.automata.test_counting import counter_automata
from tests.automata.test_export import GCC, build_library, says
from tests.helpers.counters import LANGUAGES, plain, plain_step

RELAXED = settings(
    max_examples=16, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def brackets() -> CounterAutomaton:
    return CounterAutomaton.from_machine(LANGUAGES["parenthesis"].machine.reduce(), "()", ("no", "yes"))


def test_the_document_of_brackets() -> None:
    assert brackets().to_json() == {
        "format": "csprop automaton 2",
        "vocab": ["(", ")"],
        "classes": ["no", "yes"],
        "words": False,
        "increments": [[1], [-1]],
        "window": 1,
        "start": 0,
        "transitions": [[[0, 0, 0], [1, 2, 0]], [[1, 1, 1], [1, 1, 1]], [[0, 0, 0], [1, 1, 1]]],
        "answers": [0, 0, 1],
    }


# Programs.


def test_python_counts_without_end() -> None:
    module: dict[str, Any] = {"__name__": "exported"}
    exec(compile(to_python(brackets()), "exported.py", "exec"), module)
    open_, good = 2**70, module["step"](module["START"], 0)[0]
    state = module["step"]((good, (open_,)), 1)
    assert state == (good, (open_ - 1,))


LIBRARY = """
#include "automaton.c"
#include <stdio.h>
int main(void) {
    unsigned short answers[COUNT];
    csprop_state here = csprop_start(), end, before;
    size_t i, read = csprop_run(tokens, COUNT, answers, &end);
    if (read != COUNT || csprop_run(tokens, COUNT, NULL, NULL) != COUNT) return 1;
    for (i = 0; i < COUNT; i++) {
        if (csprop_step(&here, tokens[i]) || csprop_answer(here) != answers[i]) return 2;
        printf("%d ", (int)answers[i]);
    }
    if (here.state != end.state || memcmp(here.counts, end.counts, sizeof here.counts)) return 3;
    for (i = 0; i < COUNTERS; i++) printf("%ld ", (long)here.counts[i]);
    for (i = 0; i < TOKENS; i++) { /* at the edge, and one beyond it, where nothing may change */
        long side = ADDED[i][0] > 0 ? 1 : -1;
        if (ADDED[i][0] == 0) continue;
        before = here;
        before.counts[0] = side * MOST_COUNT - ADDED[i][0];
        if (csprop_step(&before, i) || before.counts[0] != side * MOST_COUNT) return 4;
        here = before;
        if (csprop_step(&here, i) != -1 || here.state != before.state) return 5;
        if (memcmp(here.counts, before.counts, sizeof here.counts)) return 6;
        here = end;
    }
    return 0;
}
"""


@pytest.mark.skipif(not GCC, reason="there is no gcc here")
@RELAXED
@given(st.data())
def test_c_as_a_library_notices_overflow(tmp_path: Path, data: st.DataObject) -> None:
    automaton = data.draw(counter_automata())
    tokens = data.draw(st.lists(st.integers(0, automaton.symbols - 1), min_size=1, max_size=60))
    code, out, error = says(build_library(tmp_path, automaton, tokens, LIBRARY), b"")
    assert (code, error) == (0, "")
    counts = np.array(automaton.increments, int).reshape(automaton.symbols, -1)[tokens].sum(axis=0)
    expected = [*plain(automaton, tuple(tokens)), *(counts.tolist() or [0])]
    assert [int(each) for each in out.split()] == expected


# Pictures.


def holds(text: str, counts: dict[str, int]) -> bool:
    """Return True if a condition holds, by Python."""
    code = re.sub("([^<>≠]) = ", r"\1 == ", text).replace("−", "-")
    for sign, operator in {"≠": "!=", "≤": "<=", "≥": ">="}.items():
        code = code.replace(sign, operator)
    return not text or eval(code, dict(counts))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_condition_means_its_views(data: st.DataObject) -> None:
    counters, window = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))
    names = ["x", "y", "z"][:counters]
    shape = (2 * window + 1,) * counters
    size = int(np.prod(shape))
    some = st.lists(st.booleans(), min_size=size, max_size=size)
    met = np.array(data.draw(some.filter(any) | st.just([True] * size))).reshape(shape)
    views = np.array(data.draw(some)).reshape(shape)
    views.flat[np.flatnonzero(met)[0]] = True
    text = describe_views(views, met, names)
    for counts in itertools.product(range(-window - 2, window + 3), repeat=counters):
        seen = tuple(min(max(count, -window), window) + window for count in counts)
        if met[seen]:
            assert holds(text, dict(zip(names, counts, strict=True))) == views[seen]
    assert (text == "") == bool(views[met].all())


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        ([1, 0, 0, 0, 0], "c ≤ −2"), ([1, 1, 0, 0, 0], "c < 0"), ([1, 1, 1, 0, 0], "c ≤ 0"),
        ([0, 0, 1, 0, 0], "c = 0"), ([0, 1, 0, 0, 0], "c = −1"), ([0, 0, 0, 1, 1], "c > 0"),
        ([0, 0, 1, 1, 1], "c ≥ 0"), ([0, 0, 0, 0, 1], "c ≥ 2"), ([1, 1, 0, 1, 1], "c ≠ 0"),
        ([0, 1, 1, 1, 0], "−1 ≤ c ≤ 1"), ([1, 1, 1, 1, 1], ""),
        ([1, 0, 1, 0, 1], "c ≤ −2 or c = 0 or c ≥ 2"),
    ],
)  # fmt: skip
def test_conditions_in_few_words(chosen: list[int], text: str) -> None:
    assert describe_views(np.array(chosen, bool), np.ones(5, bool), ["c"]) == text


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_from_what_is_reached_exactly_one_rule_holds(data: st.DataObject) -> None:
    """The machine is run step by step, and its labels say where each step leads."""
    automaton = data.draw(counter_automata())
    told, names = rules(automaton), counter_names(automaton)
    tokens = data.draw(st.lists(st.integers(0, automaton.symbols - 1), min_size=1, max_size=40))
    state, counts = automaton.start, [0] * automaton.counters
    for token in tokens:
        here, (state, counts) = state, plain_step(automaton, state, counts, token)
        after = dict(zip(names, counts, strict=True))
        assert [there for there, when in told[here][token].items() if holds(when, after)] == [state]


def test_a_counter_is_not_named_as_a_token_is() -> None:
    one, two = LANGUAGES["a^n b^m c^n+m"].machine, LANGUAGES["a^n b^n c^n"].machine
    assert counter_names(CounterAutomaton.from_machine(one, "abd", ("no", "yes"))) == ["c"]
    assert counter_names(CounterAutomaton.from_machine(one, "abc", ("no", "yes"))) == ["n"]
    assert counter_names(CounterAutomaton.from_machine(two, "abc", ("no", "yes"))) == ["n1", "n2"]
    assert counter_names(CounterAutomaton.from_machine(two, ("c1", "n", "x"), ("no", "yes"))) == [
        "k1",
        "k2",
    ]


def test_dot_of_brackets() -> None:
    lines = to_dot(brackets()).splitlines()
    assert '  label="c: ( +1, ) −1\\nif: the counts after the token";' in lines
    assert '  s0 -> s0 [label="(\\n) if c > 0"];' in lines
    assert '  s0 -> s1 [label=") if c < 0"];' in lines
    assert '  s0 -> s2 [label=") if c = 0"];' in lines
    assert '  s1 -> s1 [label="(, )"];' in lines
    assert sum("->" in line for line in lines) == 7


def test_a_drawing_says_the_conditions_and_what_is_counted(tmp_path: Path) -> None:
    for name, language in LANGUAGES.items():
        automaton = CounterAutomaton.from_machine(
            language.machine, "abcd"[: language.machine.symbols], "xyz"
        )
        draw(automaton, tmp_path / "one.svg")
        text = (tmp_path / "one.svg").read_text()
        for counter in counter_names(automaton):
            assert f"<!-- {counter}: " in text, name
        assert re.search(r"<!-- [^>]* = 0", text) or re.search(r"<!-- [^>]* &gt; 0", text), name
