import doctest
import math
from collections import Counter
from importlib import import_module
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator

from csprop import tasks
from csprop.data.draws import NumpyDraws
from csprop.data.names import split_symbols
from csprop.errors import InputError
from csprop.tasks.base import every_sequence
from csprop.tasks.brackets import Parenthesis, ParenthesisPrefix, balanced

GROUPS = ["S3", "A4", "S4", "A5", "S5", "S3xS3"]
NAMES = [
    *(task.name for task in tasks.catalogue() if task.total),
    *("mod2", "mod5", "mod5-residue", "mod7-residue", "mod5-reset"),
    *(f"group-{group}-all" for group in GROUPS),
    "group-S5-32",
    *("group-C2", "group-C7", "group-C60-8", "group-C60-32", "group-C60-all"),
    *("flip-flop-language-10", "flip-flop-language-98"),
]


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def keys(tokens: torch.Tensor) -> list[tuple[int, ...]]:
    return [tuple(row) for row in tokens.tolist()]


@pytest.mark.parametrize("name", NAMES)
def test_labels_equal_the_truth_of_every_prefix_of_every_sequence(name: str) -> None:
    task = tasks.get(name)
    # As long as there are about two thousand of them, and two tokens at least.
    length = max(2, int(math.log(2200, len(task.vocab))))
    labels = task.labels(every_sequence(len(task.vocab), length))
    for size in range(1, length + 1):
        # The prefixes of one size, each once, in the first and in the last row that begins with it.
        step = len(task.vocab) ** (length - size)
        truths = [task.truth(row) for row in every_sequence(len(task.vocab), size).tolist()]
        assert labels[::step, size - 1].tolist() == truths
        assert labels[step - 1 :: step, size - 1].tolist() == truths
        assert task.every_label(size).tolist() == truths


@pytest.mark.parametrize("name", NAMES)
def test_labels_of_long_rows_equal_the_truth_and_every_class_occurs(name: str) -> None:
    task = tasks.get(name)
    length = task.length_from(max(40, task.length))  # the sums of group-C60 take as long to come round
    tokens = task.sample(300, length, seeded())
    labels = task.labels(tokens)
    assert labels.dtype == torch.int64
    for size in (1, 17, 39, length):
        assert labels[:, size - 1].tolist() == [task.truth(row[:size]) for row in tokens.tolist()]
    assert set(labels.flatten().tolist()) == set(range(len(task.classes)))


@pytest.mark.parametrize("name", NAMES)
def test_names_of_tokens_and_classes_are_unique_and_can_be_written(name: str) -> None:
    task = tasks.get(name)
    assert task.name == name
    assert len(set(task.vocab)) == len(task.vocab)
    assert len(set(task.classes)) == len(task.classes)
    assert split_symbols((" " if task.words else "").join(task.vocab), task.words) == list(task.vocab)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length", [2, 16, 1000])
def test_samples_come_from_the_generator_at_any_length(name: str, length: int) -> None:
    task = tasks.get(name)
    length = task.length_from(length)
    tokens = task.sample(7, length, seeded())
    assert tokens.shape == (7, length)
    assert torch.equal(tokens, task.sample(7, length, seeded()))
    assert task.sample(0, length, seeded()).shape == (0, length)


@pytest.mark.parametrize("task", dict.fromkeys(map(type, tasks.catalogue())))
def test_every_task_has_worked_examples(task: type[tasks.Task]) -> None:
    """In its own docstring, and they are right."""
    assert ">>>" in (task.__doc__ or "")
    assert doctest.testmod(import_module(task.__module__)).failed == 0


def test_every_sequence_counts() -> None:
    assert keys(every_sequence(3, 2)) == [(a, b) for a in range(3) for b in range(3)]


@pytest.mark.parametrize(("length", "catalan"), [(2, 1), (4, 2), (6, 5), (8, 14), (10, 42)])
def test_balanced_strings_are_drawn_uniformly(length: int, catalan: int) -> None:
    draws = 400 * catalan
    tokens = torch.from_numpy(balanced(draws, length, NumpyDraws(0)))
    assert all(Parenthesis().truth(row) for row in tokens.tolist())
    counts = Counter(keys(tokens))
    assert len(counts) == catalan
    statistic = sum((count - 400) ** 2 / 400 for count in counts.values())
    # Chi-square with catalan - 1 degrees of freedom: five standard deviations above its mean.
    assert statistic < (catalan - 1) + 5 * (2 * (catalan - 1)) ** 0.5 + 1e-9


def test_balanced_strings_of_a_hundred_thousand_brackets() -> None:
    tokens = torch.from_numpy(balanced(2, 100_000, NumpyDraws(0)))
    assert Parenthesis().labels(tokens)[:, -1].tolist() == [1, 1]


def depths(row: tuple[int, ...]) -> list[int]:
    return list(accumulate(1 - 2 * token for token in row))


@pytest.mark.parametrize(("task", "others"), [(Parenthesis(), 14), (ParenthesisPrefix(), 10)])
def test_half_of_a_sample_is_balanced_and_the_rest_of_the_16_strings_uniform(
    task: tasks.Task, others: int
) -> None:
    tokens = task.sample(9000, 4, seeded())
    labels = task.labels(tokens)[:, -1]
    assert all(depths(row)[-1] == 0 <= min(depths(row)) for row in keys(tokens[labels == 1]))
    counts = Counter(keys(tokens[labels == 0]))
    assert (len(counts), counts.total()) == (others, 4500)
    share, degrees = 4500 / others, others - 1
    statistic = sum((count - share) ** 2 / share for count in counts.values())
    assert statistic < degrees + 5 * (2 * degrees) ** 0.5


@pytest.mark.parametrize(("length", "different"), [(1, 1), (3, 2), (5, 5), (7, 14)])
def test_half_of_a_sample_of_prefixes_of_an_odd_length_is_one_bracket_short_of_balanced(
    length: int, different: int
) -> None:
    task = ParenthesisPrefix()
    tokens = task.sample(2000, length, seeded())
    labels = task.labels(tokens)[:, -1]
    never = keys(tokens[labels == 1])
    assert (len(never), len(set(never))) == (1000, different)
    assert all(depths(row)[-1] == 1 and min(depths(row)) >= 0 for row in never)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("partiy", "there is no task 'partiy': did you mean parity\\? `csprop tasks` lists all"),
        ("group-a5", "did you mean group-A5\\?"),
        ("mod-17", "did you mean mod17\\?"),
        ("tomita5", "did you mean tomita-5\\?"),
        ("zebra", "there is no task 'zebra': `csprop tasks` lists all; for data of your own, give a"),
        ("mod1", "mod1 is out of range: write mod2 to mod10000"),
        ("mod3-residues", "there is no task"),
        ("mod10001-reset", "mod10001-reset is out of range: write mod2-reset to mod10000-reset"),
        ("group-S6", "there is no task 'group-S6': did you mean group-"),
        ("group-S5-120", "group-S5-120: write group-S5-2 to group-S5-119"),
        ("group-S5-4", "group-S5-4: these 4 elements generate only 60 of 120: write another number"),
        ("group-C1", "group-C1 is out of range: write group-C2 to group-C1000"),
        ("group-C1001", "group-C1001 is out of range"),
        ("group-C060", "there is no task 'group-C060': did you mean group-C60\\?"),
        ("group-C60-30", "group-C60-30: these 30 elements generate only 30 of 60: write another"),
        ("group-C60-60", "group-C60-60: write group-C60-2 to group-C60-59"),
        ("group-C2-2", "group-C2-2: write group-C2-all"),
        ("tomita-8", "there is no task tomita-8: write tomita-1 to tomita-7"),
        ("nested-8", "nested-8 is out of range: write nested-1 to nested-7"),
        (
            "flip-flop-language-100",
            "flip-flop-language-100 is out of range: write flip-flop-language-0 to flip-.*-99",
        ),
        ("flip-flop-language-098", "there is no task"),
    ],
)
def test_unknown_tasks_are_refused(name: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        tasks.get(name)


@pytest.mark.parametrize(
    ("name", "length", "longer"),
    [
        *((name, 15, 16) for name in ("parenthesis", "parenthesis-words", "interleaved", "nested-3")),
        *(("anbn", 15, 16), ("anb2n", 16, 18), ("anbmcnm", 2, 4), ("missing-duplicate", 7, 8)),
        *(("parity", 0, 1), ("parity", -1, 1), ("parity", 10**30, 2**62 - 1)),
        *(("solve-equation", 2, 3), ("flip-flop-language", 2, 3)),
    ],
)
def test_lengths_without_a_sequence_are_refused(name: str, length: int, longer: int) -> None:
    task = tasks.get(name)
    with pytest.raises(InputError, match=f"has no sequences of length {length}: write {longer}"):
        task.sample(4, length, seeded())
    assert task.length_from(length) == task.length_from(longer) == longer


class Longer(tasks.Task):
    """Has infinitely many states and labels of its own."""

    name, vocab, classes, finite = "longer", ("a", "b"), ("no", "yes"), False

    def step(self, state: Any, token: int) -> int:
        return state + 1

    def answer(self, state: Any) -> Any:
        return 1.0

    def truth(self, sequence: Any) -> int:
        return int(len(sequence) > 2)

    def classify(self, tokens: Any) -> Any:
        return np.cumsum(np.ones_like(tokens), axis=1) // 3 % 2


def test_labels_of_ones_own_need_no_table() -> None:
    task = Longer()
    assert task.every_label(2).tolist() == [0] * 4
    assert task.every_label(3).tolist() == [1] * 8
    assert task.classify_text("abb") == "yes"
    with pytest.raises(InputError, match="'x' is not a token: write a, b"):
        task.classify_text("abx")
    oracle = task.oracle
    assert oracle is not None
    with pytest.raises(InputError, match=r"answer\(\) returned 1.0"):
        oracle.answer(0)
