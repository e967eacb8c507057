"""Machines that count are learned from a hundred strings, and right on far longer ones."""

import doctest
from collections.abc import Iterator

import pytest

from csprop.learning.counting import counted
from csprop.study import bliss
from csprop.study.bliss import Labelled, balanced, power, strings, summed

LANGUAGES = ("an_bn", "an_b2n", "an_bn_cn", "an_bn_cn_dn", "an_bm_c_n_plus_m", "dyck_1")


def longer(language: str) -> Iterator[Labelled]:
    for n in (*range(1, 60), 15_000):
        if language == "dyck_1":
            yield balanced(["("] * n + [")"] * n)
            yield balanced([*"(("] + [*"()"] * n + [*"))()"])
        elif language == "an_bm_c_n_plus_m":
            yield from (summed(n, m) for m in (1, 2, 7, n))
        else:
            yield power(language, n)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_hundred_strings_are_enough(language: str) -> None:
    rows = strings(language, 100, seed=100)
    vocab = sorted({token for tokens, _ in rows for token in tokens})
    classes = sorted({label for _, labels in rows for label in labels})
    found = counted(
        [([*map(vocab.index, tokens)], [*map(classes.index, labels)]) for tokens, labels in rows],
        len(vocab), len(classes),
    )  # fmt: skip
    assert found is not None
    for tokens, labels in longer(language):
        said = found.machine.run([vocab.index(token) for token in tokens])
        assert [classes[each] for each in said] == labels


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_labels_are_what_may_follow(language: str) -> None:
    """By the strings themselves: what follows a prefix in any of many strings is in its label."""
    follows: dict[str, set[str]] = {}
    given: dict[str, set[str]] = {}
    for tokens, labels in strings(language, 4000, seed=1):
        text = "".join(tokens)
        for end in range(1, len(text) + 1):
            follows.setdefault(text[:end], set()).add((text + "#")[end])
            given.setdefault(text[:end], set()).add(labels[end - 1])
    for prefix, labels in given.items():
        assert len(labels) == 1
        assert follows[prefix] <= set(next(iter(labels)))
    # Short prefixes are seen so often that all that may follow is seen too.
    short = [prefix for prefix in given if len(prefix) <= 2]
    assert all(follows[prefix] == set(next(iter(given[prefix]))) for prefix in short)


def test_docstring_example() -> None:
    assert doctest.testmod(bliss).failed == 0
