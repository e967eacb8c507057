"""The table on a user's own data: every method gets the same rows and is judged by the same truth."""

import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from csprop.automata.machine import Machine
from csprop.errors import InputError
from csprop_lab.study import engine, learners
from csprop_lab.study.job import FileJob
from csprop_lab.study.languages import FRESH, Drawn, draw, languages
from csprop_lab.study.learners import METHODS, as_task, run_methods
from csprop_lab.study.measure import Row, measure
from csprop_lab.study.own_data import LANGUAGES, SHARES, SIZES, OwnData
from csprop_lab.study.table import FULL, QUICK

LANGUAGE = "tomita-4"
FOUND = {"right": True, "states": 4, "fresh": FRESH, "fresh_right": FRESH}


def job(method: str = "csprop", **changes: Any) -> FileJob:
    options = METHODS[method] | ({"least_seconds": 0.5} if method == "LSTM" else {})
    values: dict[str, Any] = {"language": LANGUAGE, "rows": 300, "wrong": 0.0, "seed": 0}
    return FileJob(**values | {"method": method, "options": options} | changes)


def test_a_key_is_all_that_a_row_depends_on() -> None:
    one = job("LSTM")
    assert FileJob.from_json(json.loads(json.dumps(asdict(one)))).key == one.key
    others = [
        job("RPNI"), job("LSTM", rows=301), job("LSTM", wrong=0.01), job("LSTM", seed=1),
        job("LSTM", language="door"), job("LSTM", options=METHODS["LSTM"] | {"width": 65}),
    ]  # fmt: skip
    assert len({one.key, *(other.key for other in others)}) == len(others) + 1
    assert one.group == job("RPNI").group
    assert len({one.group, *(other.group for other in others[1:5])}) == 5


def test_all_methods_on_the_same_rows_are_measured_together() -> None:
    jobs = [job for jobs in OwnData().jobs(FULL).values() for job in jobs]
    work = engine.groups("own_data", jobs)
    assert len(jobs) == len({job.key for job in jobs})
    assert len(work) == len(LANGUAGES) * len(SIZES) * len(SHARES)
    with pytest.raises(InputError, match="methods on the same rows"):
        measure([job(), job(rows=1000)])


def test_the_table_asks_for_what_it_says() -> None:
    labels = OwnData().jobs(FULL)
    assert {label[0] for label in labels} == set(METHODS)
    assert {(each.rows, each.wrong) for jobs in labels.values() for each in jobs} == {
        (rows, wrong) for rows in SIZES for wrong in SHARES
    }
    kinds = [name.split("-")[0] for name in LANGUAGES]
    assert [kinds.count(kind) for kind in ("tomita", "random", "cascade")] == [7, 5, 3]
    assert set(LANGUAGES) <= languages().keys()
    assert sum(map(len, OwnData().jobs(QUICK).values())) < 50


def test_a_task_has_the_rows_of_the_language_in_its_words() -> None:
    language = languages()["login"]
    rows = draw(language, 300, 0.05, 0)
    task = as_task("login", language, rows)
    assert (task.vocab, task.classes) == (language.vocab, language.classes)
    assert task.data.last.tolist() == rows.labels.tolist()
    padded = task.data.padded().tokens
    for number in (0, 7, 299):
        tokens = rows.tokens[number]
        assert padded[number, : len(tokens)].tolist() == tokens.tolist()
    assert task.line(7) == 8


@pytest.fixture(scope="module")
def spoiled() -> dict[str, Row]:
    """The rows of all methods where some labels are wrong."""
    jobs = [job(method, rows=1000, wrong=0.01) for method in METHODS]
    return {row["job"]["method"]: row for row in measure(jobs)}


def test_csprop_finds_the_machine_and_the_wrong_labels(spoiled: dict[str, Row]) -> None:
    result = spoiled["csprop"]["result"]
    expected = FOUND | {"clear": True}
    assert result == expected | {"wrong": 10, "suspects": 10, "hits": 10}


def test_merging_bends_to_the_wrong_labels(spoiled: dict[str, Row]) -> None:
    for name in ("RPNI", "EDSM"):
        result = spoiled[name]["result"]
        assert not result["right"]
        assert result["states"] > 4
        assert result["fresh_right"] < FRESH


def test_the_lstm_has_as_much_time_as_csprop(
    spoiled: dict[str, Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    least = job("LSTM").options["least_seconds"]
    ours, its = spoiled["csprop"]["seconds"], spoiled["LSTM"]["seconds"]
    assert max(least, ours) <= its < max(least, ours) + 2
    assert "right" not in spoiled["LSTM"]["result"]
    asked: list[float] = []
    monkeypatch.setattr(learners, "_csprop", lambda *_: {"result": {}, "seconds": 12.5})
    monkeypatch.setattr(learners, "_lstm", lambda job, task, seconds, options: asked.append(seconds))
    run_methods([job("LSTM")])
    assert asked == [12.5]


def test_merging_finds_the_machine_of_clean_rows() -> None:
    found = run_methods([job("RPNI", rows=1000), job("EDSM", rows=1000)])
    assert [each["result"] for each in found] == [FOUND, FOUND]


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
    true, late = languages()[LANGUAGE], 70
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
