"""Arithmetic, Tomita's languages and flip-flop mean what they say, by Python's own arithmetic."""

import re
from collections import Counter
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator

from csprop import tasks
from csprop.cli.main import main
from csprop.data.draws import NumpyDraws
from csprop.tasks.base import every_sequence
from csprop.tasks.near import members
from csprop.tasks.tomita import Tomita

DIGITS, OPERATORS = st.sampled_from("01234"), st.sampled_from("+-x")
EXPRESSIONS = st.builds(
    lambda first, others: first + "".join(operator + digit for operator, digit in others),
    DIGITS,
    st.lists(st.tuples(OPERATORS, DIGITS), max_size=20),
)


def value(name: str, text: str) -> int:
    return int(tasks.get(name).classify_text(text))


@given(EXPRESSIONS)
def test_an_expression_has_the_value_that_python_gives(text: str) -> None:
    python = text.replace("x", "*")
    assert value("modular-arithmetic-precedence", text) == eval(python) % 5
    brackets = re.sub(r"(?<=\d)(?=[-+*])", ")", python)  # 1+2*3 as ((1)+2)*3
    assert value("modular-arithmetic", text) == eval("(" * brackets.count(")") + brackets) % 5


@pytest.mark.parametrize("name", ["modular-arithmetic", "modular-arithmetic-precedence"])
@given(EXPRESSIONS)
def test_a_times_sign_may_be_left_out_and_an_operator_at_the_end_waits(name: str, text: str) -> None:
    assert value(name, text.replace("x", "")) == value(name, text)
    for operator in "+-x":
        assert value(name, text + operator) == value(name, text)
        assert value(name, text + operator + "+" + "2") == value(name, text + "+2")


@pytest.mark.parametrize("name", ["modular-arithmetic", "modular-arithmetic-precedence"])
@pytest.mark.parametrize("length", [1, 2, 9, 40])
def test_half_of_the_rows_are_expressions(name: str, length: int) -> None:
    task = tasks.get(name)
    tokens = task.sample(4000, length, Generator().manual_seed(1))
    places = torch.arange(length) % 2 == 0
    expressions = ((tokens < 5) == places).all(dim=1).double().mean()
    by_chance = 0.5 * (5 / 8) ** ((length + 1) // 2) * (3 / 8) ** (length // 2)
    assert expressions == pytest.approx(0.5 + by_chance, abs=0.03)
    assert len(tokens.unique()) == 8


# Each language but the third again, as an expression for the strings that belong to it.
BELONG = {
    1: "1*",
    2: "(10)*",
    4: "(1|01|001)*0?0?",
    5: "(00|11|(01|10)(00|11)*(01|10))*",
    6: "(01|10|(00|1)(10)*(11|0)|(11|0)(01)*(00|1))*",
    7: "0*1*0*1*",
}


def runs_allowed(text: str) -> bool:
    """Language 3, from the runs of equal tokens."""
    runs = [(run[0], len(run)) for run in re.findall("0+|1+", text)]
    return not any(
        (one, size % 2, other, after % 2) == ("1", 1, "0", 1)
        for (one, size), (other, after) in pairwise(runs)
    )


@pytest.mark.parametrize("number", range(1, 8))
def test_the_languages_of_tomita_on_every_string_up_to_length_12(number: int) -> None:
    task = Tomita(number)
    for length in range(13):
        for row in every_sequence(2, length).tolist():
            text = "".join(map(str, row))
            belongs = runs_allowed(text) if number == 3 else re.fullmatch(BELONG[number], text)
            assert task.truth(row) == bool(belongs), text


@pytest.mark.parametrize("number", range(1, 8))
@pytest.mark.parametrize("length", [1, 8, 9])
def test_strings_of_a_language_are_drawn_uniformly(number: int, length: int) -> None:
    task = Tomita(number)
    known = sum(task.truth(row) for row in every_sequence(2, length).tolist())
    drawn = members(task.machine, 1, 400 * known, length, NumpyDraws(0))
    counts = Counter(tuple(row) for row in drawn.tolist())
    assert len(counts) == known
    assert all(task.truth(row) for row in counts)
    statistic = sum((count - 400) ** 2 / 400 for count in counts.values())
    assert statistic <= max(0, known - 1) + 5 * (2 * max(0, known - 1)) ** 0.5
    if not known:  # such as an odd length of (10)*: then there is nothing to balance
        assert task.sample(10, length, Generator().manual_seed(0)).shape == (10, length)


@pytest.mark.parametrize("number", range(1, 8))
def test_both_answers_are_frequent_at_long_even_lengths(number: int) -> None:
    task = Tomita(number)
    labels = task.labels(task.sample(1000, 256, Generator().manual_seed(0)))[:, -1]
    assert 0.2 < labels.double().mean() < 0.8


# The flip-flop language.


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
