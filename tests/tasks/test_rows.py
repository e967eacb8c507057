"""Rows from Python, packing, and what is told about rows."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import csprop
from csprop.data.formats import Batch, batch_rows
from csprop.data.packing import Packer, WordsFound, pack, read_row
from csprop.errors import InputError
from csprop.tasks import from_file, from_rows
from csprop.tasks.rows import RowsTask

TOKENS = st.sampled_from(["a", "b", "é", "🂡", " ", "ab", "open", 0, 1, 10, True, False])
SEQUENCES = st.one_of(
    st.text("ab é🂡\t", max_size=5),
    st.lists(TOKENS, max_size=4),
    st.sampled_from(["open close", "open", "a b"]),
)
VALUES = st.sampled_from(["yes", "no", "1", 1, 0, True, False])


@st.composite
def many(draw: st.DrawFn) -> list[tuple[Any, Any]]:
    """Return rows of one kind or of several, with a label for the whole or for every step."""
    kind = draw(st.sampled_from([st.text("abé", min_size=1, max_size=5), SEQUENCES]))
    rows = []
    for sequence in draw(st.lists(kind, min_size=1, max_size=12)):
        rows.append((sequence, draw(st.one_of(VALUES, st.lists(VALUES, max_size=4)))))
    return rows


@st.composite
def good(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    """Well-formed sequences, some of them alike, and their labels."""
    kind = st.one_of(
        st.just(st.text("abé", min_size=1, max_size=4)), st.just(st.lists(TOKENS, min_size=1))
    )
    different = draw(st.lists(draw(kind), min_size=1, max_size=8))
    sequences = draw(st.lists(st.sampled_from(different), max_size=12)) + [different[0]] * 2
    steps = [st.lists(VALUES, min_size=len(each), max_size=len(each)) for each in sequences[:-2]]
    labels = [draw(st.one_of(VALUES, each)) for each in steps]
    return sequences, [*labels, "yes", "no"]


def contents(task: RowsTask) -> list[tuple[list[str], list[str | None]]]:
    """Return the rows as names."""
    found = []
    steps = task.data.padded()
    for row, length in enumerate(task.data.lengths.tolist()):
        labels = steps.labels[row, :length].tolist()
        found.append((
            [task.vocab[token] for token in steps.tokens[row, :length].tolist()],
            [None if label < 0 else task.classes[label] for label in labels],
        ))  # fmt: skip
    return found


def has_words(sequence: Any) -> bool:
    if isinstance(sequence, str):
        return len(sequence.split()) > 1
    return any(len(str(token)) > 1 for token in sequence)


@given(many(), st.integers(1, 5))
def test_packing_is_what_reading_row_by_row_gives(rows: list[tuple[Any, Any]], size: int) -> None:
    """Whatever goes through the fast way, and however the rows are divided."""
    words = any(has_words(sequence) for sequence, _ in rows)
    numbered = [(number, *row) for number, row in enumerate(rows, start=1)]
    try:
        wanted = [read_row(f"x row {n}", sequence, label, words) for n, sequence, label in numbered]
        complaint = None
        if len({each for _, labels in wanted for each in labels}) < 2:
            complaint = "there must be at least two classes"
    except InputError as error:
        wanted, complaint = [], str(error)

    def some() -> Iterator[Batch]:
        return (next(batch_rows(numbered[at : at + size])) for at in range(0, len(numbered), size))

    if complaint is not None:
        with pytest.raises(InputError) as caught:
            pack("x", some)
        assert complaint in str(caught.value)
        return
    task = RowsTask("x", pack("x", some))
    assert task.words == words
    assert contents(task) == [
        (names, [None] * (len(names) - len(labels)) + labels) for names, labels in wanted
    ]
    assert set(task.vocab) == {name for names, _ in wanted for name in names}
    assert set(task.classes) == {name for _, labels in wanted for name in labels}


def test_a_word_after_many_characters_starts_the_reading_anew() -> None:
    packer = Packer("x", None)
    packer.add(([1], ["ab"], [0]))
    with pytest.raises(WordsFound):
        packer.add(([2], [["ab"]], [1]))
    task = from_rows(["ab", "ba", ["ab", "c"]], [0, 1, 0])
    assert contents(task)[0] == (["ab"], ["0"])
    assert task.vocab == ("ab", "ba", "c")


class Column:
    """A column of a data frame or a data set: something to iterate over, again and again."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)


WANTED = [(["0", "1", "1"], [None, None, "0"]), (["1", "0", "0"], [None, None, "1"])]


@pytest.mark.parametrize(
    ("sequences", "labels"),
    [
        (["011", "100"], [0, 1]),
        ([["0", "1", "1"], ("1", "0", "0")], ("0", "1")),
        ([[0, 1, 1], [1, 0, 0]], [np.int64(0), np.int64(1)]),
        (np.array([[0, 1, 1], [1, 0, 0]]), np.array([0, 1])),
        (np.array(["011", "100"]), np.array([0, 1], np.uint8)),
        (np.array(["011", "100"], object), np.array(["0", "1"], object)),
        ([[np.int8(0), np.uint64(1), 1], torch.tensor([1, 0, 0])], torch.tensor([0, 1])),
        (Column(["011", "100"]), Column([0, 1])),
        (iter(["011", "100"]), iter([0, 1])),
    ],
)  # fmt: skip
def test_rows_from_whatever_holds_them(sequences: Any, labels: Any) -> None:
    task = from_rows(sequences, labels)
    assert contents(task) == WANTED
    assert (task.name, task.oracle, task.line(0), task.line(1)) == ("rows", None, 1, 2)


def test_labels_at_every_step_and_booleans() -> None:
    task = from_rows(["ab", "b"], [np.array([True, False]), [np.bool_(True)]])
    assert contents(task) == [(["a", "b"], ["true", "false"]), (["b"], ["true"])]


@pytest.mark.parametrize(
    ("sequences", "labels", "sentence"),
    [
        ("0110", [1], "sequences: give a list"),
        (["0110"], "1", "labels: give a list"),
        (["0", "1"], [1], "rows: there must be one label for each sequence"),
        ([], [], "rows: has no rows"),
        (["0", "1"], [1, float("nan")], "rows row 2: the label nan must be a string or a whole"),
        ([b"0", "1"], [1, 0], "rows row 1: the sequence must be a string or a list"),
        ([np.zeros((2, 2), int), "1"], [1, 0], r"rows row 1: the token \[0, 0\] must be"),
        ([[10**5000], "1"], [1, 0], "rows row 1: the token with thousands of digits must be"),
        (["0", "1"], [10**5000, 0], "rows row 1: the label with thousands of digits must be"),
        (["0", "1"], [["x"] * 100, 0], "rows row 1: 100 labels for 1 tokens"),
        ([[{"x": "y" * 100_000}], "1"], [1, 0], r"rows row 1: the token \{'x': 'yyy.{40,60}… must be"),
    ],
)
def test_bad_rows_are_refused_in_one_sentence(sequences: Any, labels: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        from_rows(sequences, labels)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@given(good())
def test_what_is_told_about_rows(rows: tuple[list[Any], list[Any]]) -> None:
    task = from_rows(*rows)
    told, read = task.summary, contents(task)
    lengths = sorted(len(names) for names, _ in read)
    assert (told.rows, told.tokens) == (len(rows[0]), sum(lengths))
    assert (told.shortest, told.longest) == (lengths[0], lengths[-1])
    assert told.median == (lengths[(len(lengths) - 1) // 2] + lengths[len(lengths) // 2]) / 2
    assert +Counter(told.classes) == Counter(labels[-1] for _, labels in read)
    assert told.duplicates == len(read) - len({tuple(names) for names, _ in read})
    at = defaultdict(set)
    for names, labels in read:
        for step, label in enumerate(labels):
            if label is not None:
                at[tuple(names), step].add(label)
    clashing = {names for (names, _), labels in at.items() if len(labels) > 1}
    assert told.contradictions == len(clashing)
    assert told.contradicting_rows == sum(tuple(names) in clashing for names, _ in read)
    kinds = {(labels.count(None), len(labels)) for _, labels in read}
    every = all(missing == 0 for missing, _ in kinds)
    whole = all(missing == length - 1 for missing, length in kinds)
    assert told.labels == ("whole" if whole else "every step" if every else "mixed")


@given(good())
def test_saved_rows_are_read_back(tmp_path_factory: pytest.TempPathFactory, rows: Any) -> None:
    task = from_rows(*rows)
    path = tmp_path_factory.mktemp("saved") / "deep" / "rows.jsonl"
    saved = task.save(path)
    names = (task.vocab, task.classes, task.words)
    assert (saved.vocab, saved.classes, saved.words) == names
    assert saved.sha256 == task.sha256
    assert contents(saved) == contents(task)
    assert task.save(path).describe() == saved.describe()


def test_other_rows_are_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    from_rows(["01", "1"], [0, 1]).save(path)
    before = path.read_bytes()
    with pytest.raises(InputError, match="exists and holds other rows: choose another name"):
        from_rows(["01", "1"], [1, 0]).save(path)
    assert path.read_bytes() == before
    with pytest.raises(InputError, match=r"the name must end in \.jsonl"):
        from_rows(["01", "1"], [1, 0]).save(tmp_path / "rows.csv")


def rows_of_parity(count: int) -> RowsTask:
    sequences = [f"{n:b}" for n in range(1, count)]
    return from_rows(sequences, [each.count("1") % 2 for each in sequences], name="bits")


def test_a_run_keeps_its_rows(tmp_path: Path) -> None:
    task, out = rows_of_parity(80), tmp_path / "run"
    options: Any = {"epochs": 2, "width": 4}
    run = csprop.train(task, out=out, **options)
    again = csprop.load(out)
    assert again.task.data.tokens.tolist() == task.data.tokens.tolist()
    assert again.config.task["data"] == "rows.jsonl"
    assert run.predict(["0110"]) == again.predict(["0110"])
    with pytest.raises(InputError, match="already holds a run"):
        csprop.train(rows_of_parity(70), out=out, **options)
    with pytest.raises(InputError, match="holds other rows"):
        csprop.train(rows_of_parity(70), out=out, resume=True, **options)
    csprop.train(task, out=out, resume=True, **(options | {"epochs": 3}))
    assert len(csprop.load(out).metrics) == 3
    in_memory = csprop.train(task, **options)
    assert torch.equal(in_memory.model.embedding, run.model.embedding)
    seeds = csprop.train_seeds(task, [0, 1], out=tmp_path / "seeds", **options)
    assert len(seeds) == 2
    assert len(csprop.load(tmp_path / "seeds" / "seed-1").task.data) == 79


def test_the_line_of_a_row(tmp_path: Path) -> None:
    """Blank lines count as lines, and so do those inside of quotes."""
    path = tmp_path / "d.csv"
    path.write_text('sequence,label\n\n01,a\n"1\n",b\n\n10,a\n')
    task = from_file(path)
    assert [task.line(row) for row in range(3)] == [3, 4, 7]
    path = tmp_path / "d.jsonl"
    rows = [json.dumps({"sequence": "01" * n, "label": n % 2}) for n in range(1, 4)]
    path.write_text("\n" + "\n \n".join(rows))
    task = from_file(path)
    assert [task.line(row) for row in range(3)] == [2, 4, 6]
    assert [task.data.lengths[row] for row in range(3)] == [2, 4, 6]
