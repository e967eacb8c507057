"""The languages of the study and their rows, the same for every method, which one truth judges."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from csprop.automata.machine import Machine
from csprop.errors import InputError
from csprop_lab.study import engine, learners
from csprop_lab.study.job import FileJob
from csprop_lab.study.languages import FRESH, LONGEST, Drawn, draw, fresh, languages
from csprop_lab.study.learners import METHODS, run_methods
from csprop_lab.study.measure import measure
from csprop_lab.study.own_data import LANGUAGES, SHARES, SIZES, OwnData
from csprop_lab.study.table import FULL

ALL = languages()
ROWS = "a7cb7fd3c440dfde104e4ddde401a8d6383467df77ff5f1f93deaabe4b155efb"
DIGEST = "f736b68afe09777e5917d5a31f65057a9ef7f088a1aabf34210cf20b82becc5a"
LANGUAGE = "tomita-4"


def test_the_machines_are_those_that_were_fixed_first() -> None:
    documents = json.dumps({name: machine.to_json() for name, machine in ALL.items()})
    assert hashlib.sha256(documents.encode()).hexdigest() == DIGEST


@pytest.mark.parametrize("wrong", [0, 0.01, 0.05])
@pytest.mark.parametrize("name", ["tomita-2", "random-3-8x3", "login"])
def test_rows_have_as_many_wrong_labels_as_was_asked(name: str, wrong: float) -> None:
    machine = ALL[name]
    rows = draw(machine, 1000, wrong, seed=1)
    lengths = [len(tokens) for tokens in rows.tokens]
    assert (len(lengths), min(lengths), max(lengths)) == (1000, 1, LONGEST)
    assert {token for tokens in rows.tokens for token in tokens.tolist()} == set(range(machine.symbols))
    assert rows.truth.tolist() == [machine.final(tokens) for tokens in rows.tokens]
    assert (rows.labels != rows.truth).sum() == 1000 * wrong
    assert set(rows.labels.tolist()) <= set(range(len(machine.classes)))


def test_the_same_seed_draws_the_same_rows() -> None:
    one, other = (draw(ALL["door"], 300, 0.05, seed) for seed in (0, 1))
    assert not np.array_equal(one.labels, other.labels)
    text = json.dumps([[tokens.tolist() for tokens in one.tokens], one.labels.tolist()])
    assert hashlib.sha256(text.encode()).hexdigest() == ROWS


@pytest.mark.parametrize("name", ["tomita-1", "tomita-7", "handshake", "login"])
def test_half_of_the_fresh_rows_have_classes_that_are_equally_likely(name: str) -> None:
    machine, half = ALL[name], FRESH // 2
    rows = fresh(machine, 0)
    lengths = [len(tokens) for tokens in rows.tokens]
    assert (len(lengths), min(lengths), max(lengths)) == (FRESH, 17, 64)
    assert rows.labels.tolist() == [machine.final(tokens) for tokens in rows.tokens]
    share = np.bincount(rows.truth[half:], minlength=len(machine.classes)) / half
    assert share == pytest.approx(np.full(len(machine.classes), 1 / len(machine.classes)), abs=0.06)


def test_a_fresh_row_of_a_class_is_any_of_them() -> None:
    """Of the strings of 0s, 1s, 0s and 1s, most have their three changes anywhere."""
    rows = fresh(ALL["tomita-7"], 0)
    pairs = zip(rows.tokens, rows.truth, strict=True)
    some = [tokens for tokens, label in pairs if label and len(tokens) > 50]
    assert len({int((np.diff(tokens) != 0).argmax()) for tokens in some}) > 25


def job(method: str = "csprop", **changes: Any) -> FileJob:
    options = METHODS[method] | ({"least_seconds": 0.5} if method == "LSTM" else {})
    values: dict[str, Any] = {"language": LANGUAGE, "rows": 300, "wrong": 0.0, "seed": 0}
    return FileJob(**values | {"method": method, "options": options} | changes)


def test_all_methods_on_the_same_rows_are_measured_together() -> None:
    jobs = [job for jobs in OwnData().jobs(FULL).values() for job in jobs]
    work = engine.groups("own_data", jobs)
    assert len(jobs) == len({job.key for job in jobs})
    assert len(work) == len(LANGUAGES) * len(SIZES) * len(SHARES)
    with pytest.raises(InputError, match="methods on the same rows"):
        measure([job(), job(rows=1000)])


def test_the_lstm_has_as_much_time_as_csprop(monkeypatch: pytest.MonkeyPatch) -> None:
    csprop, lstm = measure([job(method, rows=1000, wrong=0.01) for method in ("csprop", "LSTM")])
    least = job("LSTM").options["least_seconds"]
    longest = max(least, csprop["seconds"])
    assert longest <= lstm["seconds"] < longest + 2
    assert "right" not in lstm["result"]
    asked: list[float] = []
    monkeypatch.setattr(learners, "_csprop", lambda *_: {"result": {}, "seconds": 12.5})
    monkeypatch.setattr(learners, "_lstm", lambda job, task, seconds, options: asked.append(seconds))
    run_methods([job("LSTM")])
    assert asked == [12.5]


def test_merging_that_takes_too_long_is_given_up() -> None:
    limit = {"most_seconds": 0.05}
    (found,) = run_methods([job("EDSM", language="login", rows=4000, wrong=0.05, options=limit)])
    assert found == {"result": {"right": False, "given_up": True}, "seconds": 0.05}


def test_a_sequence_with_two_labels_has_its_commonest_one_for_merging(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[Any] = []

    def run(data: list[Any], automaton_type: str) -> Any:
        given.extend(data)
        raise TimeoutError

    tokens = [np.array(each) for each in ([0, 1], [1], [0, 1], [0, 1])]
    labels = np.array([1, 0, 0, 1])
    monkeypatch.setattr("aalpy.learning_algs.run_RPNI", run)
    monkeypatch.setattr(learners, "draw", lambda *_: Drawn(tokens, labels, labels))
    run_methods([job("RPNI")])
    assert given == [((0, 1), 1), ((1,), 0)]


def test_a_machine_that_is_wrong_once_is_wrong() -> None:
    """No 000 within the first 70 tokens: right on all fresh rows, and yet another machine."""
    true, late = ALL[LANGUAGE], 70
    states = [(run, age) for age in range(late + 1) for run in range(4)]

    def after(run: int, age: int, token: int) -> int:
        following = 0 if age == late else true.transitions[run][token]
        return states.index((following, min(age + 1, late)))

    transitions = tuple((after(*state, 0), after(*state, 1)) for state in states)
    outputs = tuple(true.outputs[run] for run, _ in states)
    found = learners._judged(job(), Machine(transitions=transitions, outputs=outputs).minimal())
    assert found["fresh_right"] == FRESH
    assert not found["right"]
    flipped = replace(true, outputs=tuple(1 - each for each in true.outputs if each is not None))
    assert learners._judged(job(), flipped)["fresh_right"] == 0
