"""Tasks about whole rows: by Python's own arithmetic, and by trying every value of what is missing."""

import re
from collections import Counter
from pathlib import Path

import pytest
from torch import Generator

from csprop import tasks
from csprop.cli.main import main
from csprop.data.examples import UNLABELLED

NAMES = ["modular-arithmetic-brackets", "solve-equation", "missing-duplicate"]


def drawn(name: str, count: int, length: int) -> list[tuple[str, str]]:
    """Written sequences, and their classes."""
    task = tasks.get(name)
    tokens = task.sample(count, length, Generator().manual_seed(length))
    labels = task.labels(tokens)[:, -1].tolist()
    answers = (task.classes[label] for label in labels)
    return list(zip(map(task.text, tokens.tolist()), answers, strict=True))


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 7, 12, 41])
def test_an_expression_has_the_value_that_python_gives(length: int) -> None:
    for text, value in drawn("modular-arithmetic-brackets", 200, length):
        assert len(text) == length
        assert eval(text) % 5 == int(value), text


@pytest.mark.parametrize("length", [3, 4, 5, 6, 7, 8, 13, 40])
def test_an_equation_has_one_solution_which_python_finds(length: int) -> None:
    for text, value in drawn("solve-equation", 200, length):
        assert len(text) == length
        assert text.count("x") == 1
        left, right = text.split("=")
        solutions = [x for x in range(5) if (eval(left, {"x": x}) - int(right)) % 5 == 0]
        assert solutions == [int(value)], text


@pytest.mark.parametrize("length", [2, 4, 6, 30])
def test_the_missing_bit_completes_a_double_string(length: int) -> None:
    for text, bit in drawn("missing-duplicate", 200, length):
        assert (len(text), text.count("_")) == (length, 1)
        assert re.fullmatch(r"([01]+)\1", text.replace("_", bit))
        assert not re.fullmatch(r"([01]+)\1", text.replace("_", "10"[int(bit)]))


def test_sequences_that_are_no_expressions_have_class_0() -> None:
    for name, texts in {
        "modular-arithmetic-brackets": ("12", "(1+2", "1+2)", "(1+2+3)", "()", "--1", "(1*+2)"),
        "solve-equation": ("x", "x=", "=x", "x=3=3", "(x=3)", "x3=3"),
        "missing-duplicate": ("1_1", "__", "1_01", "11", "_"),
    }.items():
        task = tasks.get(name)
        for text in texts:
            assert task.classify_text(text) == "0", text


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length", [8, 40])
def test_every_class_is_frequent_and_every_token_occurs(name: str, length: int) -> None:
    rows = drawn(name, 2000, length)
    task = tasks.get(name)
    shares = [count / 2000 for count in Counter(answer for _, answer in rows).values()]
    even = 1 / len(task.classes)
    assert len(shares) == len(task.classes)
    assert 0.7 * even < min(shares) <= max(shares) < 1.8 * even
    if name != "modular-arithmetic-brackets":
        assert max(shares) < even + 0.04
    assert set("".join(text for text, _ in rows)) == set(task.vocab)


@pytest.mark.parametrize("name", NAMES)
def test_only_the_last_step_has_a_label_and_rows_are_of_all_lengths(name: str) -> None:
    task = tasks.get(name)
    tokens = task.sample(20, 8, Generator().manual_seed(0))
    labels = task.labels(tokens)
    assert (labels[:, :-1] == UNLABELLED).all()
    assert labels[:, -1].tolist() == [task.truth(row) for row in tokens.tolist()]
    examples = task.examples(1000, 12, Generator().manual_seed(0))
    known = [length for length in range(1, 13) if length in task.lengths]
    lengths = Counter(examples.lengths.tolist())
    assert sorted(lengths) == known
    assert max(lengths.values()) < 1.5 * 1000 / len(known)
    steps = examples.padded()
    assert ((steps.labels != UNLABELLED) == steps.answers).all()
    assert (steps.answers.sum(dim=1) == 1).all()
    for row, length, label in zip(
        steps.tokens.tolist(), examples.lengths.tolist(), examples.last.tolist(), strict=True
    ):
        assert task.truth(row[:length]) == label


@pytest.mark.parametrize("name", NAMES)
def test_the_commands_train_and_evaluate_and_say_that_there_is_no_proof(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    brief = ["--samples", "300", "--epochs", "2", "--length", "8", "--out", run]
    assert main(["train", name, *brief]) == 0
    assert main(["eval", run, "--lengths", "8,32"]) == 0
    assert main(["eval", run, "--lengths", "8", "--positions"]) == 0
    assert "2,000" in capsys.readouterr().out
    for refused in (["eval", run, "--exhaustive"], ["certify", run], ["certify", run, "--length", "4"]):
        assert main(refused) == 2
        said = capsys.readouterr().err.strip().splitlines()
        assert len(said) == 1
        assert name in said[0]
        if refused[0] == "certify":
            assert "no proof exists for such a task" in said[0]
