"""The flip-flop language: drawn sequences belong to it, and the machine is proven on all sequences."""

from itertools import pairwise

import pytest
from torch import Generator

from csprop import tasks
from csprop.cli.main import main
from csprop.tasks.base import every_sequence

PERCENT = {"flip-flop-language": 80, "flip-flop-language-98": 98, "flip-flop-language-10": 10}


def drawn(name: str, count: int, length: int) -> list[str]:
    task = tasks.get(name)
    return list(map(task.text, task.sample(count, length, Generator().manual_seed(0)).tolist()))


@pytest.mark.parametrize("name", PERCENT)
@pytest.mark.parametrize("length", [3, 17, 101])
def test_a_drawn_sequence_belongs_to_the_language(name: str, length: int) -> None:
    task = tasks.get(name)
    for text in drawn(name, 300, length):
        pairs = [text[at : at + 2] for at in range(0, length - 1, 2)]
        assert (text[0], text[-1]) == ("w", "r")
        memory = ""
        for instruction, bit in pairs:
            assert instruction in "wri"
            assert bit in "01"
            if instruction == "w":
                memory = bit
            assert instruction != "r" or bit == memory
        assert task.classify_text(text) == memory


@pytest.mark.parametrize(("name", "percent"), PERCENT.items())
def test_instructions_are_as_frequent_as_the_name_says_and_bits_are_balanced(
    name: str, percent: int
) -> None:
    rows = drawn(name, 1000, 201)
    instructions = "".join(text[2:-1:2] for text in rows)  # the first is always w, the last r
    assert instructions.count("i") / len(instructions) == pytest.approx(percent / 100, abs=0.005)
    for other in "wr":
        share = instructions.count(other) / len(instructions)
        assert share == pytest.approx((1 - percent / 100) / 2, abs=0.005)
    for kind in "wi":
        bits = [bit for text in rows for at, bit in pairwise(text) if at == kind]
        assert bits.count("1") / len(bits) == pytest.approx(0.5, abs=0.05)


def test_half_of_the_rows_to_learn_from_are_of_any_tokens() -> None:
    task = tasks.get("flip-flop-language")
    examples = task.examples(1001, 17, Generator().manual_seed(0))
    grammatical = (examples.tokens[:, ::2] < 3).all(1) & (examples.tokens[:, 1::2] > 2).all(1)
    assert int(grammatical.sum()) == 501
    assert len(examples.tokens[501:, 0].unique()) == 5
    truths = [task.truth(row) for row in examples.tokens.tolist()]
    assert examples.labels[:, -1].tolist() == truths


def test_the_machine_by_a_loop_over_the_tokens() -> None:
    task = tasks.get("flip-flop-language")
    for row in every_sequence(5, 6).tolist():
        memory = 0
        for before, token in pairwise(row):
            if before == 0 and token > 2:
                memory = token - 3
        assert task.truth(row) == memory


def test_the_shortest_sequence_is_a_question() -> None:
    assert drawn("flip-flop-language", 2, 1) == ["r", "r"]


def test_it_is_evaluated_at_odd_lengths(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "zoo:flip-flop-language"]) == 0
    shown = capsys.readouterr().out
    assert all(each in shown for each in (" 17 ", " 35 ", " 69 ", " 273 ", " 1,089 "))
    assert "100" in shown
