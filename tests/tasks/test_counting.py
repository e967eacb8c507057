"""Tasks that count: the declared machine is the meaning, and samples hit and just miss the language."""

import numpy as np
import pytest
import torch

from csprop import tasks
from csprop.automata.machine import Machine
from csprop.automata.walk import Endless
from csprop.data.draws import NumpyDraws
from csprop.errors import InputError
from csprop.tasks.brackets import Interleaved, Nested
from csprop.tasks.near import near

"""All sequences up to this length are tried, by the number of tokens."""
CONTROL = {
    # States of the control, and counters. A state for each answer while all is right, one for wrong.
    "parenthesis": (3, 1),
    "parenthesis-words": (3, 1),
    "parenthesis-prefix": (2, 1),
    "interleaved": (3, 2),
    "majority": (2, 1),
    # The start, each letter, the last one by its answer, and what is wrong.
    "anbn": (5, 1),
    "anb2n": (5, 1),
    "anbncn": (6, 2),
    "anbncndn": (7, 3),
    "anbmcnm": (6, 1),
}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("name", "sizes"), CONTROL.items())
def test_no_machine_is_larger_than_it_needs_to_be(name: str, sizes: tuple[int, int]) -> None:
    task = tasks.get(name)
    machine = task.counting
    assert machine is not None
    assert (len(machine.control), machine.counters, machine.window) == (*sizes, 1)
    assert not task.finite
    with pytest.raises(InputError, match="has infinitely many states"):
        _ = task.machine


@pytest.mark.parametrize("name", CONTROL)
def test_infinitely_many_states_and_finitely_many_of_each_size(name: str) -> None:
    task = tasks.get(name)
    oracle = task.oracle
    assert oracle is not None
    with pytest.raises(Endless):
        Machine.explore(oracle, 300)
    reached, edge = set(), {task.start()}
    for _ in range(30):
        reached |= edge
        after = {task.step(state, token) for state in edge for token in range(len(task.vocab))}
        edge = {state for state in after - reached if task.size(state) <= 3}
    assert not edge


def test_counts_are_forgotten_where_nothing_can_change_any_more() -> None:
    task = tasks.get("anbn")
    assert task.step(task.step(task.start(), 1), 0) == task.step(task.start(), 1)


@pytest.mark.parametrize("name", CONTROL)
@pytest.mark.parametrize("length", [0, 48])
def test_every_class_is_a_fifth_of_a_sample_at_least(name: str, length: int) -> None:
    """At the length at which training draws, and at a longer one."""
    task = tasks.get(name)
    labels = task.labels(task.sample(2000, length or task.length, seeded()))[:, -1]
    shares = labels.bincount(minlength=len(task.classes)) / 2000
    assert shares.min() > 0.2
    given = task.examples(2000, task.length, seeded())
    assert np.bincount(given.last, minlength=len(task.classes)).min() > 400


@pytest.mark.parametrize("name", [*(name for name in CONTROL if name != "parenthesis"), "nested-3"])
def test_many_sequences_miss_the_language_by_one_letter(name: str) -> None:
    """Parenthesis is drawn as in the paper."""
    task = tasks.get(name)
    rows = task.sample(600, task.length, seeded())
    labels = task.labels(rows)[:, -1]
    wrong = rows[labels != labels.new_tensor(task.truth(rows[labels == 1][0].tolist()))][:150]
    symbols = len(task.vocab)
    missing = 0
    for row in wrong:
        others = row.repeat(len(row) * symbols, 1)
        others[torch.arange(len(others)), torch.arange(len(row)).repeat_interleave(symbols)] = (
            torch.arange(symbols).repeat(len(row))
        )
        missing += bool((task.labels(others)[:, -1] != task.truth(row.tolist())).any())
    assert missing > 0.2 * len(wrong)


def test_examples_of_few_strings_have_all_lengths_up_to_the_one_that_is_asked_for() -> None:
    task = tasks.get("anbn")
    given = task.examples(400, 10, seeded())
    assert set(given.lengths.tolist()) == {2, 4, 6, 8, 10}
    rows = zip(given.tokens.tolist(), given.lengths.tolist(), given.last.tolist(), strict=True)
    texts = {task.text(row[:length]) for row, length, last in rows if last}
    assert texts == {"a" * n + "b" * n for n in range(1, 6)}
    assert torch.equal(given.tokens, task.examples(400, 10, seeded()).tokens)


def test_interleaved_strings_are_balanced_and_use_both_kinds() -> None:
    task = Interleaved()
    rows = task.balanced(300, 12, NumpyDraws(0))
    assert all(map(task.truth, rows.tolist()))
    assert np.unique(rows).tolist() == [0, 1, 2, 3]
    assert 0 < sum(map(Nested(7).truth, rows.tolist())) < len(rows)  # some cross, and some do not


def test_a_near_miss_differs_in_one_place_or_in_two_neighbours() -> None:
    rows = NumpyDraws(0).below(3, (500, 9))
    changed = near(rows, 3, NumpyDraws(1))
    differ = rows != changed
    assert set(differ.sum(axis=1).tolist()) <= {0, 1, 2}
    swapped = differ.sum(axis=1) == 2
    for before, after, where in zip(rows[swapped], changed[swapped], differ[swapped], strict=True):
        left, right = np.flatnonzero(where).tolist()
        assert right == left + 1
        assert before[[left, right]].tolist() == after[[right, left]].tolist()
    assert np.array_equal(changed, near(rows, 3, NumpyDraws(1)))
    assert near(rows[:, :1], 3, NumpyDraws(0)).shape == (500, 1)
    assert near(rows[:0], 3, NumpyDraws(0)).shape == (0, 9)


def test_before_the_first_token_there_is_no_answer_if_no_state_stands_for_it() -> None:
    task = tasks.get("anbn")
    with pytest.raises(InputError, match="anbn: there is no answer before the first token"):
        task.answer(task.start())
