"""The languages of the study, and the rows that are drawn from them: fixed by their seeds."""

import hashlib
import itertools
import json
import re

import numpy as np
import pytest

from csprop_lab.study.languages import FRESH, LONGEST, draw, fresh, languages, protocols, tomita

ALL = languages()
ROWS = "a7cb7fd3c440dfde104e4ddde401a8d6383467df77ff5f1f93deaabe4b155efb"
DIGEST = "f736b68afe09777e5917d5a31f65057a9ef7f088a1aabf34210cf20b82becc5a"


def test_the_machines_are_those_that_were_fixed_first() -> None:
    documents = json.dumps({name: machine.to_json() for name, machine in ALL.items()})
    assert hashlib.sha256(documents.encode()).hexdigest() == DIGEST


def test_there_are_as_many_as_is_said() -> None:
    kinds = [name.partition("-")[0] for name in ALL]
    assert [kinds.count(kind) for kind in ("tomita", "random", "cascade")] == [7, 30, 10]
    assert len(kinds) == 7 + 30 + 10 + len(protocols())
    for name, machine in ALL.items():
        assert len(machine.minimal()) == len(machine)
        if name.startswith(("random", "cascade")):
            assert name.endswith(f"-{len(machine)}x{machine.symbols}")
        if name.startswith("random"):
            assert 3 <= len(machine) <= 8
            assert 2 <= machine.symbols <= 3


@pytest.mark.parametrize(
    ("number", "pattern"), [(1, "1*"), (2, "(10)*"), (4, "(?!.*000)[01]*"), (7, "0*1*0*1*")]
)
def test_the_grammars_are_tomitas(number: int, pattern: str) -> None:
    machine = tomita()[f"tomita-{number}"]
    for length in range(1, 9):
        for tokens in itertools.product((0, 1), repeat=length):
            inside = re.fullmatch(pattern, "".join(map(str, tokens))) is not None
            assert machine.final(tokens) == inside, tokens


@pytest.mark.parametrize(
    ("name", "events", "answer"),
    [
        ("door", "lock open", "locked"),
        ("door", "lock unlock open", "open"),
        ("login", "fail fail fail ok", "locked"),
        ("login", "fail fail ok", "in"),
        ("login", "fail fail logout fail", "locked"),
        ("login", "fail fail fail timeout ok", "in"),
        ("login", "ok logout", "out"),
        ("vending", "five ten", "yes"),
        ("vending", "ten", "no"),
        ("vending", "ten ten buy", "no"),
        ("vending", "ten ten buy ten", "yes"),
        ("vending", "five ten refund", "no"),
        ("handshake", "syn synack ack", "yes"),
        ("handshake", "syn ack synack fin ack", "yes"),
        ("handshake", "syn synack ack fin", "no"),
        ("handshake", "syn synack rst ack", "no"),
        ("mutex", "take-a take-b", "bad"),
        ("mutex", "take-a free-a take-b", "good"),
        ("mutex", "take-a take-b free-a free-b", "bad"),
        ("mutex", "take-a take-b reset take-b", "good"),
    ],
)
def test_a_protocol_answers_as_its_words_say(name: str, events: str, answer: str) -> None:
    machine = protocols()[name]
    assert machine.words
    tokens = [machine.vocab.index(word) for word in events.split()]
    assert machine.classes[machine.final(tokens)] == answer


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
    one, again, other = (draw(ALL["door"], 300, 0.05, seed) for seed in (0, 0, 1))
    assert all(map(np.array_equal, one.tokens, again.tokens))
    assert np.array_equal(one.labels, again.labels)
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
