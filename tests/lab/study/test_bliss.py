"""Machines that count are learned from a hundred strings, and right on far longer ones."""

import doctest
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from csprop.automata.automaton import Automaton, CounterAutomaton
from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.learning.counting import find_counting_machine
from csprop_lab.study import bliss
from csprop_lab.study.bliss import LANGUAGES, Labelled, agrees, first_strings, strings


def longer(language: str) -> Iterator[Labelled]:
    for n in (*range(1, 60), 15_000):
        if language == "dyck_1":
            yield bliss.balanced(["("] * n + [")"] * n)
            yield bliss.balanced([*"(("] + [*"()"] * n + [*"))()"])
        elif language == "an_bm_c_n_plus_m":
            yield from (bliss.summed(n, m) for m in (1, 2, 7, n))
        else:
            yield bliss.power(language, n)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_hundred_strings_are_enough(language: str) -> None:
    rows = strings(language, 100, seed=100)
    vocab = sorted({token for tokens, _ in rows for token in tokens})
    classes = sorted({label for _, labels in rows for label in labels})
    found = find_counting_machine(
        [([*map(vocab.index, tokens)], [*map(classes.index, labels)]) for tokens, labels in rows],
        len(vocab), len(classes),
    )  # fmt: skip
    assert found is not None
    for tokens, labels in longer(language):
        said = found.machine.run([vocab.index(token) for token in tokens])
        assert [classes[each] for each in said] == labels


def test_docstring_example() -> None:
    assert doctest.testmod(bliss).failed == 0


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_machine_of_a_language_knows_its_prefixes_and_nothing_else(language: str) -> None:
    """By the strings themselves: every sequence of a length is a prefix of one, or it is none."""
    found = bliss.machine(language)
    labels = {}
    for tokens, said in [*first_strings(language)[:200], *longer(language)]:
        for end, label in enumerate(said[:8], start=1):
            labels[tuple(tokens[:end])] = label
    for length in range(1, 8 if len(found.vocab) == 2 else 6):
        for sequence in product(found.vocab, repeat=length):
            said = found.classes[found.final([found.vocab.index(token) for token in sequence])]
            if said == bliss.OUT:
                assert sequence not in labels
            else:
                assert labels[sequence] == said
    for tokens, said in longer(language):
        answers = found.run([found.vocab.index(token) for token in tokens])
        assert [found.classes[each] for each in answers] == said


def test_the_first_strings_of_the_brackets_are_all_there_are_of_a_length() -> None:
    strings = ["".join(tokens) for tokens, _ in first_strings("dyck_1")]
    assert len(strings) == len(set(strings)) == 15_000
    for pairs, count in enumerate((1, 2, 5, 14, 42, 132), start=1):
        assert sum(len(each) == 2 * pairs for each in strings) == count  # the Catalan numbers
    assert [len(tokens) for tokens, _ in first_strings("an_bn")[:3]] == [2, 4, 6]
    assert [len(tokens) for tokens, _ in first_strings("an_bm_c_n_plus_m")[:4]] == [4, 6, 6, 8]


def test_a_machine_agrees_where_the_language_leads_and_only_if_it_is_right_there() -> None:
    truth = bliss.machine("an_bn")
    renamed = CounterAutomaton.from_machine(truth, truth.vocab, (*truth.classes[:-1], "anything"))
    assert agrees(renamed, "an_bn")
    assert not agrees(renamed, "an_b2n")
    wrong = [0 if each == 1 else each for each in truth.outputs]  # a b does not tell that b may follow
    spoiled = replace(truth.control, outputs=tuple(wrong))
    machine = CounterMachine(increments=truth.increments, window=truth.window, control=spoiled)
    assert not agrees(CounterAutomaton.from_machine(machine, truth.vocab, truth.classes), "an_bn")
    finite = Machine(transitions=((0, 1), (1, 1)), outputs=(0, 1))
    assert not agrees(Automaton.from_machine(finite, ("(", ")"), ("()", "(#")), "dyck_1")
