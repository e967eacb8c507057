"""Arithmetic and Tomita's languages mean what they say, by Python's own arithmetic and expressions."""

import re
from collections import Counter
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator

from csprop import tasks
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
