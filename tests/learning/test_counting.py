"""Machines that count come out of rows that need one, and only of those."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from csprop import tasks
from csprop.learning.controls import Controls
from csprop.learning.counting import Row, by_length, extend_tree, find_counting_machine
from csprop.learning.description import description
from csprop.learning.increments import bits, node_counts, propose_counters
from csprop.learning.tree import PrefixTree
from csprop.tasks.base import every_sequence

ROWS = st.lists(
    st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=7), st.integers(0, 1)),
    min_size=2,
    max_size=30,
)


def rows_of(name: str, count: int, wrong: float, every: bool = False, longest: int = 16) -> list[Row]:
    """Rows of all lengths at which a task is defined, with the label of the whole or at every step."""
    task, lots = tasks.get(name), np.random.default_rng(5)
    lengths = [length for length in range(1, longest + 1) if length in task.lengths]
    rows = []
    for length in lots.choice(lengths, count).tolist():
        tokens = task.sample(8, length, torch.Generator().manual_seed(int(lots.integers(2**31))))
        row = tokens[int(lots.integers(8))]
        labels = task.labels(row[None])[0].numpy()
        spoiled = lots.random(length) < wrong
        labels = np.where(spoiled, (labels + 1) % len(task.classes), labels).tolist()
        rows.append((row.tolist(), labels if every else labels[-1:]))
    return rows


def mistakes(name: str, machine: object) -> int:
    """How many short sequences, and long drawn ones, a machine answers wrongly somewhere."""
    task, wrong = tasks.get(name), 0
    tested = [every_sequence(len(task.vocab), {2: 12, 3: 8, 4: 6}[len(task.vocab)])]
    lengths = map(task.length_from, (24, 96))
    tested += [task.sample(300, length, torch.Generator().manual_seed(9)) for length in lengths]
    for rows in tested:
        said = machine.run(rows.numpy())  # pyright: ignore[reportAttributeAccessIssue]
        wrong += int((said != task.labels(rows).numpy()).any(axis=1).sum())
    return wrong


@pytest.mark.parametrize(
    ("name", "count", "wrong", "every"),
    [
        ("parenthesis", 600, 0.0, False),
        ("parenthesis", 1000, 0.05, False),
        ("parenthesis", 150, 0.01, True),
        ("parenthesis-words", 300, 0.01, False),
        ("majority", 300, 0.05, False),
        ("anbn", 1000, 0.01, False),
        ("anbn", 1000, 0.05, True),
        ("interleaved", 3000, 0.0, True),
    ],
)
def test_rows_that_need_counters_lead_to_a_machine_that_is_right_at_every_length(
    name: str, count: int, wrong: float, every: bool
) -> None:
    found = find_counting_machine(
        rows_of(name, count, wrong, every), len(tasks.get(name).vocab), len(tasks.get(name).classes)
    )
    assert found is not None
    declared = tasks.get(name).counting
    assert declared is not None
    assert found.machine.counters == declared.counters
    assert mistakes(name, found.machine) == 0
    assert found.misses <= found.finite_misses
    assert 0 < found.longer < count * 16


def test_labels_by_a_coin_lead_to_no_counter() -> None:
    lots = np.random.default_rng(0)
    rows = [(lots.integers(0, 2, 12).tolist(), [int(lots.integers(2))]) for _ in range(400)]
    assert find_counting_machine(rows, 2, 2) is None


def test_a_threshold_of_two_is_seen_through_a_wider_window() -> None:
    lots = np.random.default_rng(1)
    rows = [lots.integers(0, 2, length).tolist() for length in lots.integers(1, 20, 800)]
    found = find_counting_machine(
        [(row, [int(row.count(0) - row.count(1) >= 2)]) for row in rows], 2, 2
    )
    assert found is not None
    assert found.machine.window == 2
    for row in every_sequence(2, 11).tolist():
        assert found.machine.run(row)[-1] == int(row.count(0) - row.count(1) >= 2)


def test_the_same_rows_lead_to_the_same_machine() -> None:
    rows = rows_of("parenthesis", 300, 0.05)
    assert find_counting_machine(rows, 2, 2) == find_counting_machine(rows, 2, 2)


@settings(max_examples=50, deadline=None)
@given(rows=ROWS, counters=st.lists(st.tuples(*[st.integers(-2, 2)] * 3), min_size=1, max_size=2))
def test_a_tree_of_tokens_and_views_is_that_of_the_rows_written_so(
    rows: list[tuple[list[int], int]], counters: list[tuple[int, ...]]
) -> None:
    window = 2 if len(counters) == 1 else 1
    written = []
    for tokens, label in rows:
        counts, symbols = [0] * len(counters), []
        for token in tokens:
            counts = [count + vector[token] for count, vector in zip(counts, counters, strict=True)]
            symbol = token
            for count in counts:
                symbol = symbol * (2 * window + 1) + max(-window, min(window, count)) + window
            symbols.append(symbol)
        written.append((symbols, [label]))
    plain = PrefixTree.of([(tokens, [label]) for tokens, label in rows], 3, 2)
    found = extend_tree(plain, tuple(counters), window)
    views = (2 * window + 1) ** len(counters)
    expected = PrefixTree.of(written, 3 * views, 2)
    assert found.symbols == expected.symbols
    assert found.token[1:].tolist() == expected.token[1:].tolist()
    for mine, theirs in zip(found.columns, expected.columns, strict=True):
        assert mine[1:].tolist() == theirs[1:].tolist()


@settings(max_examples=30, deadline=None)
@given(rows=ROWS)
def test_how_often_a_token_stands_on_the_way_to_a_node(rows: list[tuple[list[int], int]]) -> None:
    tree = PrefixTree.of([(tokens, [label]) for tokens, label in rows], 3, 2)
    counts = node_counts(tree)
    for node in range(len(tree)):
        path, here = [], node
        while here:
            path.append(int(tree.token[here]))
            here = int(tree.parent[here])
        assert [int(each[node]) for each in counts] == [path.count(token) for token in range(3)]


@settings(max_examples=30, deadline=None)
@given(rows=ROWS, seed=st.integers(0, 2**32))
def test_the_bits_of_a_control_are_those_of_its_description(
    rows: list[tuple[list[int], int]], seed: int
) -> None:
    tree = PrefixTree.of([(tokens, [label]) for tokens, label in rows], 3, 2)
    table = np.random.default_rng(seed).integers(0, 4, (4, 3)).astype(np.int32)
    controls = Controls(tree)
    assert controls.bits(table) == pytest.approx(description(tree, table), abs=1e-9)
    assert controls.bits(controls.shortest(3)) <= controls.bits(np.zeros((1, 3), np.int32)) + 1e-9


def test_the_difference_of_brackets_is_tried_first_and_nothing_if_labels_are_constant() -> None:
    rows = rows_of("parenthesis", 300, 0.0)
    assert propose_counters(PrefixTree.of(rows, 2, 2))[0] == ((1, -1),)
    same = PrefixTree.of([(tokens, [0]) for tokens, _ in rows], 2, 2)
    assert propose_counters(same) == []


def test_counters_are_found_among_many_words() -> None:
    lots = np.random.default_rng(2)
    rows = []
    for length in lots.integers(2, 20, 800).tolist():
        tokens = lots.choice(12, length, p=[0.3, *[0.04] * 10, 0.3]).tolist()
        rows.append((tokens, [int(tokens.count(0) > tokens.count(11))]))
    found = find_counting_machine(rows, 12, 2)
    assert found is not None
    assert [row[0] for row in found.machine.increments] == [1, *[0] * 10, -1]


def test_what_counters_cost() -> None:
    assert bits(()) == 0
    assert bits(((1, -1),)) < bits(((2, -1),)) < bits(((1, -1), (2, -1)))


def test_rows_are_parted_by_length() -> None:
    rows: list[Row] = [([0] * length, [0]) for length in (1, 2, 2, 3, 3, 3, 3, 4, 9, 9)]
    shorter, longer = by_length(rows)
    assert [len(row[0]) for row in shorter] == [1, 2, 2, 3, 3, 3, 3, 4]
    assert [len(row[0]) for row in longer] == [9, 9]
    shorter, longer = by_length([([0] * 10, list(range(10)))] * 3)
    assert shorter == [([0] * 8, list(range(8)))] * 3
    assert longer == [([0] * 10, [8, 9])] * 3
    shorter, longer = by_length([([each], [0]) for each in range(10)])
    assert [row[0][0] for row in longer] == [0, 5]
    assert len(shorter) == 8
