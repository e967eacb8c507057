"""The example files that come with csprop."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import csprop
from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.data.shipped import EXAMPLES, FOLDER
from csprop.errors import InputError
from tests.helpers import examples


def said(machine: Any, tokens: Sequence[str]) -> str:
    """Return the answer of a machine with names."""
    return machine.classes[machine.final([machine.vocab.index(token) for token in tokens])]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_script_makes_each_file_and_it_is_small(name: str) -> None:
    content = csprop.example(name).read_bytes()
    assert content == examples.script(Path(name).stem).text().encode()
    assert len(content) <= 60_000


def test_every_file_that_is_shipped_is_an_example() -> None:
    assert {path.name for path in FOLDER.iterdir()} == EXAMPLES.keys()


def test_a_name_that_is_nearly_right_is_told() -> None:
    with pytest.raises(InputError, match=r"no example 'Event.jsonl': did you mean events.jsonl\?"):
        csprop.example("Event.jsonl")
    with pytest.raises(InputError, match=r"write events.jsonl, door.csv, brackets.jsonl, "):
        csprop.example("zebra")


def test_the_machine_of_the_door_is_found() -> None:
    script, machine = examples.script("door"), csprop.learn(csprop.example("door.csv")).machine
    assert isinstance(machine, Machine)
    assert len(machine) == 3
    for actions in (["open"], ["lock", "open"], ["lock", "unlock", "open", "lock"], ["close"]):
        assert said(machine, actions) == script.left(actions)


def test_the_machine_of_the_brackets_counts() -> None:
    script = examples.script("brackets")
    machine = csprop.learn(csprop.example("brackets.jsonl")).machine
    assert isinstance(machine, CounterMachine)
    for brackets in ("(" * 50 + ")" * 50, "(" * 50 + ")" * 51 + "(", "(()" * 30):
        assert said(machine, brackets) == script.labels(brackets)[-1]


def test_the_machines_that_are_shipped() -> None:
    turnstile, football = (
        csprop.Automaton.from_json(json.loads(csprop.example(name).read_text()))
        for name in ("machine.json", "football.json")
    )
    assert said(turnstile, ["coin"]) == "unlocked"
    assert said(turnstile, ["push", "coin", "push"]) == "locked"
    moved = list(range(5))
    for token in "abbabaabbbab":
        swap = {"a": (1, 0, 3, 2, 4), "b": (1, 2, 3, 4, 0)}[token]
        moved = [swap[each] for each in moved]
    assert len(football) == 60
    assert said(football, "abbabaabbbab") == "".join(map(str, moved))
