"""Search beside the specification and all machines; the prefix tree beside dictionaries."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from csprop.automata.machine import Machine
from csprop.learning.candidates import merging
from csprop.learning.description import (
    alone,
    description,
    miss_bits,
    table_bits,
    unlike_bits,
    with_machine,
)
from csprop.learning.merging import merge
from csprop.learning.polishing import polish
from csprop.learning.tree import PrefixTree
from csprop.ops import native
from csprop.ops.backends import use_backend

needs_kernel = pytest.mark.skipif(bool(native.WHY_NOT), reason="the kernel is not compiled")


def drawn(
    seed: int, rows: int, states: int = 3, symbols: int = 2, wrong: float = 0.1, classes: int = 2
) -> PrefixTree:
    """Rows of a random machine, some with another label."""
    draw = np.random.default_rng(seed)
    table, answers = draw.integers(0, states, (states, symbols)), draw.integers(0, classes, states)
    made = []
    for _ in range(rows):
        tokens = draw.integers(0, symbols, draw.integers(1, 8)).tolist()
        state = 0
        for token in tokens:
            state = table[state, token]
        other = int(draw.integers(1, max(2, classes))) if draw.random() < wrong else 0
        made.append((tokens, [(int(answers[state]) + other) % classes]))
    return PrefixTree.of(made, symbols, classes)


@needs_kernel
@pytest.mark.parametrize("seed", range(30))
def test_the_compiled_search_makes_the_moves_of_the_specification(seed: int) -> None:
    symbols, classes = (1, 2, 3, 7, 17)[seed % 5], (1, 2, 2, 5)[seed % 4]
    tree = drawn(seed, 10 + 2 * seed, 2 + seed % 4, symbols, wrong=0.15, classes=classes)
    for wrong, by_class in itertools.product((1e-30, 1e-3, 0.1), (False, True)):
        with use_backend("native"):
            fast = merge(tree, wrong, 12, by_class)
        with use_backend("reference"):
            slow = merge(tree, wrong, 12, by_class)
        assert (fast is None) == (slow is None)
        if fast is None or slow is None:
            continue
        assert fast.tolist() == slow.tolist()
        for split, by_target in ((False, False), (True, False), (False, True)):
            with use_backend("native"):
                fast = polish(tree, slow, split, by_target=by_target)
            with use_backend("reference"):
                assert fast.tolist() == polish(tree, slow, split, by_target=by_target).tolist()


@needs_kernel
def test_the_search_ends_where_its_work_is_done() -> None:
    """With no work allowed the table is as it was, but for states that no row reaches."""
    tree = drawn(0, 100)
    table = np.array([[1, 2], [2, 3], [3, 0], [0, 1], [4, 4]], np.int32)
    assert polish(tree, table, work=0).tolist() == [[1, 2], [2, 3], [3, 0], [0, 1]]
    assert description(tree, polish(tree, table)) < description(tree, table)


@pytest.mark.parametrize(("labels", "classes"), [(1, 2), (10, 2), (300, 5)])
def test_descriptions_are_counted_as_the_text_says(labels: int, classes: int) -> None:
    bits = miss_bits(labels, classes)
    assert bits[0] == 1
    for missed in range(1, labels + 1):
        ways = math.comb(labels, missed) * max(1, classes - 1) ** missed * (labels + 1)
        assert bits[missed] == pytest.approx(1 + math.log2(ways))


def test_a_table_takes_the_fewer_bits_of_two_ways_to_write_it() -> None:
    counting = np.array([[1, 2, 3], [2, 3, 0], [3, 0, 1], [0, 1, 2]], np.int32)
    assert table_bits(counting, 5) == pytest.approx(1 + 4 * math.log2(5) + 4 * 3 * math.log2(4))
    waiting = np.repeat([[0], [1], [2]], 100, axis=1).astype(np.int32)  # most tokens do nothing
    waiting[0, 7], waiting[1, [8, 9]] = 1, 2
    ways = 3**3 * 100**3 * (100 * 2) * (math.comb(100, 2) * 2**2)
    assert table_bits(waiting, 2) == pytest.approx(1 + 3 + math.log2(ways))


def test_classes_that_are_rare_take_fewer_bits() -> None:
    """Of 100 labels 30 are unlike, 26 of one class, 3 and 1 of others; the fourth is expected."""
    ways = math.comb(100, 30) * 101 * math.comb(33, 3) * math.comb(30, 26) * math.comb(4, 3)
    assert unlike_bits(100, np.array([26, 3, 1, 0])) == pytest.approx(2 + math.log2(ways))
    even = math.comb(100, 30) * 101 * 3**30
    assert unlike_bits(100, np.array([10, 10, 10, 0])) == pytest.approx(2 + math.log2(even))
    assert unlike_bits(100, np.array([30, 0])) == pytest.approx(miss_bits(100, 2)[30])


@pytest.mark.parametrize("shares", [(0.45, 0.45, 0.1), (0.4, 0.4, *(0.025,) * 8), (0.9, 0.1)])
@pytest.mark.parametrize("seed", range(3))
def test_random_labels_are_described_best_without_a_machine(
    shares: tuple[float, ...], seed: int
) -> None:
    draw = np.random.default_rng(seed)
    rows = [
        (draw.integers(0, 2, draw.integers(1, 17)).tolist(), [int(draw.choice(len(shares), p=shares))])
        for _ in range(600)
    ]
    tree = PrefixTree.of(rows, 2, len(shares))
    for table in merging(tree):
        assert with_machine(tree, table) > alone(tree)


def test_labels_are_described_without_a_machine_as_the_text_says() -> None:
    def bits(distinct: int, unlike: int, labels: int, missed: int) -> float:
        return float(miss_bits(distinct, 2)[unlike] + miss_bits(labels, 2)[missed])

    often = [([0], [1])] * 9 + [([0], [0])] + [([1] * n, [0]) for n in range(1, 30)]
    # The sequence 0 has a label of its own, and one of its ten labels differs from it.
    assert alone(PrefixTree.of(often, 2, 2)) == pytest.approx(bits(30, 1, 39, 1))
    sticky = [([row, 0, 0, 0, 0, 0], [row % 2] * 6) for row in range(8)]  # labels of rows, repeated
    assert alone(PrefixTree.of(sticky, 8, 2)) == pytest.approx(bits(48, 4, 48, 0))


@pytest.mark.parametrize("seed", range(12))
def test_no_machine_of_up_to_three_states_is_shorter(seed: int) -> None:
    """All 1 + 16 + 729 tables of up to three states over two tokens are tried."""
    tree = drawn(seed, 400, wrong=0.05)
    shortest = min(
        description(tree, np.array(entries, np.int32).reshape(states, 2))
        for states in (1, 2, 3)
        for entries in itertools.product(range(states), repeat=2 * states)
    )
    tables = [merge(tree, wrong, 32, by_class) for wrong in (0.001, 0.05) for by_class in (False, True)]
    found = min(description(tree, polish(tree, table)) for table in tables if table is not None)
    assert found <= shortest + 1e-9


# The tree.


ROWS = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=6).flatmap(
        lambda tokens: st.tuples(
            st.just(tokens),
            st.one_of(
                st.lists(st.integers(0, 1), min_size=1, max_size=1),
                st.lists(st.integers(0, 1), min_size=len(tokens), max_size=len(tokens)),
            ),
        )
    ),
    min_size=1,
    max_size=30,
)


def labels_of(given: list[tuple[list[int], list[int]]]) -> Counter[tuple[tuple[int, ...], int]]:
    """How often each prefix has each label."""
    found: Counter[tuple[tuple[int, ...], int]] = Counter()
    for tokens, labels in given:
        for place, label in enumerate(labels, start=len(tokens) - len(labels) + 1):
            found[tuple(tokens[:place]), label] += 1
    return found


@given(ROWS)
def test_every_label_is_counted_at_its_prefix(given: list[tuple[list[int], list[int]]]) -> None:
    tree = PrefixTree.of(given, 3, 2)
    paths: list[tuple[int, ...]] = [()]
    for node in range(1, len(tree)):
        paths.append((*paths[tree.parent[node]], int(tree.token[node])))
    node = np.repeat(np.arange(len(tree)), np.diff(tree.first)).tolist()
    counted = zip(node, tree.label.tolist(), tree.weight.tolist(), strict=True)
    assert {(paths[at], label): weight for at, label, weight in counted} == labels_of(given)
    prefixes = {tuple(tokens[:n]) for tokens, _ in given for n in range(len(tokens) + 1)}
    assert len(tree) == len(prefixes)
    for node in range(1, len(tree)):  # in preorder, a subtree ends where its depth is reached again
        later = [n for n in range(node + 1, len(tree)) if tree.depths[n] <= tree.depths[node]]
        assert tree.end[node] == min(later, default=len(tree))


@given(ROWS, st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=4, max_size=4))
def test_misses_are_those_of_the_best_answers(
    given: list[tuple[list[int], list[int]]], table: list[list[int]]
) -> None:
    tree, transitions = PrefixTree.of(given, 3, 2), np.array(table, np.int32)
    seen: dict[int, Counter[int]] = {state: Counter() for state in range(4)}
    for (path, label), weight in labels_of(given).items():
        state = 0
        for token in path:
            state = table[state][token]
        seen[state][label] += weight
    missed = sum(sum(each.values()) - max(each.values(), default=0) for each in seen.values())
    assert tree.misses(transitions) == missed
    machine: Machine = tree.machine(transitions)
    wrong = sum(
        weight for (path, label), weight in labels_of(given).items() if machine.final(path) != label
    )
    assert wrong == missed
