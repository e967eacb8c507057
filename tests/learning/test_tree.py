"""The prefix tree of labelled rows, beside dictionaries of prefixes."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from csprop.automata.machine import Machine
from csprop.learning.tree import PrefixTree

rows = st.lists(
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


@given(rows)
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


@given(rows, st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=4, max_size=4))
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
