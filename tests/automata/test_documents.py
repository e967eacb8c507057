"""JSON documents of both kinds of automata."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given

from csprop.automata.automaton import AnyAutomaton, automaton_from_json
from csprop.errors import InputError
from tests.automata.test_automaton import parity
from tests.automata.test_counter_automaton import brackets
from tests.automata.test_counting import counter_automata
from tests.helpers.machines import automata

FINITE: dict[Any, list[Any]] = {
    "format": ["csprop automaton 2", None],
    "vocab": [
        *([], "01", ["0", "0"], ["0", ""], ["0", 1], ["0", "\ud800"], ["0"], ["0", "1", "2"], None),
        {"0": 0, "1": 1},
    ],
    "classes": [[], ["even"], ["even", "even"], [["even"], "odd"]],
    "words": [0, "no", None],
    "start": [2, -1, 0.0, True, None, "0", []],
    "transitions": [
        *([], None, 5, [[[0, 1]]], [[0, 1], [1, 2]], [[0, 1], [1, -1]], [[0, 1], [1]]),
        *([[0, 1], [1, 0, 0]], [[0, 1], [1, 0.0]], [[0, 1], [1, False]], [[0, 1], [1, None]]),
        *([[0, 1], [1, [0]]], [[0, 1], 3], ["01", "10"], {"0": [0, 1]}, [[0, 1], [1, 2**70]]),
    ],
    "answers": [
        *([0], [0, 1, 0], [0, 2], [0, -1], [], [None, 1], [0, "1"], [0, True], [0, 1.0], [0, [1]]),
        *(None, "01"),
    ],
    "extra": [1],
    7: [1],
}
COUNTING: dict[Any, list[Any]] = {
    "format": ["csprop automaton 1", "csprop automaton 3", None],
    "vocab": [[], "()", ["(", "("], ["(", 1], ["("], ["(", ")", "x"], None],
    "classes": [[], ["no"], ["no", "no"], [["no"], "yes"]],
    "words": [0, "no", None],
    "increments": [
        *([], None, 5, "11", [1, -1], [[1], -1], [[1]], [[1], [-1], [0]], [[1], [-1, 0]], [[], []]),
        *([[1], [0.5]], [[1], [True]], [[1], [None]], [[1], ["1"]], [[1], [2**40]], {"0": [1]}),
        [[1, 0], [-1, 0]],
    ],
    "window": [-1, 0, 2, 1.0, True, None, "1", 2**80],
    "start": [3, -1, 0.0, True, None, "0", []],
    "transitions": [
        *([], None, 5, [[0, 1, 2]], [[[0, 0, 0], [1, 2, 0]]], [[[0, 0], [0, 0]]] * 3),
        *([[0, 0, 0, 1, 2, 0]] * 3, [[[0, 0, 0], [1, 2]]] * 3, [[[0, 0, 0], [1, 2, 3]]] * 3),
        *([[[0, 0, 0]]] * 3, [[[0, 0, 0], [1, 2, 0.0]]] * 3, [[[0, 0, 0], [1, 2, None]]] * 3),
        *([[[0, 0, 0], 5]] * 3, [[[0, 0, 0], "120"]] * 3, [[]] * 3, {"0": []}),
        [[[0, 0], [0, 1, 2, 0]]] * 3,
    ],
    "answers": [
        *([0, 0], [0, 0, 1, 1], [0, 0, 2], [0, 0, -1], [], [None, 0, 1], [0, 0, "1"], None, "001"),
    ],
    "extra": [1],
    7: [1],
}
MADE = {"finite": parity(), "counting": brackets()}


@given(automata() | counter_automata())
def test_a_document_is_read_as_the_same_automaton(automaton: AnyAutomaton) -> None:
    assert automaton_from_json(json.loads(json.dumps(automaton.to_json()))) == automaton


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (kind, field, value)
        for kind, fields in (("finite", FINITE), ("counting", COUNTING))
        for field, values in fields.items()
        for value in values
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_malformed_documents(kind: str, field: Any, value: Any) -> None:
    automaton = MADE[kind]
    document = copy.deepcopy(automaton.to_json())
    document[field] = value
    with pytest.raises(InputError, match=r"^(automaton|machine|counter machine): ") as caught:
        type(automaton).from_json(document)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", MADE)
def test_other_values_and_missing_fields_are_refused(kind: str) -> None:
    whole = MADE[kind].to_json()
    lacking = [{name: whole[name] for name in whole if name != each} for each in whole]
    for document in (None, [], "x", 3, {}, True, *lacking):
        with pytest.raises(InputError, match=r"^automaton: "):
            type(MADE[kind]).from_json(document)
