"""Every task's machine is exact: it answers as the task's meaning does."""

import math
from collections.abc import Callable, Hashable, Sequence
from functools import cache, reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from csprop import tasks
from csprop.errors import InputError
from csprop.tasks.base import Task, every_sequence
from csprop.training.presets import preset

STATES = {
    "parity": 2, "mod3": 3, "mod3-residue": 3, "mod3-reset": 3, "mod5-residue": 5, "mod7-residue": 7,
    "mod10000-reset": 10_000, "cycle-nav": 5, "flip-flop": 2,
    "flip-flop-language": 4,  # the bit, and whether the next one is written
    "even-pairs": 5,  # nothing read, and the first and the last token
    "group-S3": 6, "group-A4": 12, "group-S4": 24, "group-A5": 60, "group-S5": 120, "group-S3xS3": 36,
    "group-S3-all": 6, "group-A4-all": 12, "group-S4-all": 24, "group-A5-all": 60, "group-S5-all": 120,
    "group-S5-32": 120, "group-S3xS3-all": 36, "group-C2": 2, "group-C60": 60, "group-C60-8": 60,
    "group-C60-32": 60, "group-C60-all": 60, "group-C1000": 1000,
    "modular-arithmetic": 15,  # the value, and whether the next digit is added, taken off or multiplies
    "modular-arithmetic-precedence": 35,  # two sums, or the value and a sign
    "tomita-1": 2, "tomita-2": 3, "tomita-3": 5, "tomita-4": 4, "tomita-5": 4, "tomita-6": 3,
    "tomita-7": 5,
    "nested-1": 4, "nested-3": 16,  # a stack for each order of what is open, and a state for a mistake
}  # fmt: skip
COUNTING = [
    *("parenthesis", "parenthesis-words", "parenthesis-prefix", "interleaved", "majority"),
    *("anbn", "anb2n", "anbncn", "anbncndn", "anbmcnm"),
]
NAMES = [name for name in STATES if name != "mod10000-reset"] + COUNTING


@cache
def task_of(name: str) -> Task:
    return tasks.get(name)


def read(task: Task, sequence: list[int]) -> int:
    """Return the class that the machine gives."""
    return task.answer(reduce(task.step, sequence, task.start()))


def test_every_task_of_the_catalogue_is_tested_here() -> None:
    assert {task.name for task in tasks.catalogue() if task.total} <= set(NAMES)


@settings(max_examples=150)
@given(name=st.sampled_from(NAMES), data=st.data())
def test_the_machine_and_the_labels_are_as_meant_on_longer_sequences(
    name: str, data: st.DataObject
) -> None:
    task = task_of(name)
    sequence = data.draw(st.lists(st.integers(0, len(task.vocab) - 1), min_size=1, max_size=60))
    truths = [task.truth(sequence[: t + 1]) for t in range(len(sequence))]
    assert [read(task, sequence[: t + 1]) for t in range(len(sequence))] == truths
    assert task.labels(torch.tensor([sequence])).tolist() == [truths]


@pytest.mark.parametrize("name", STATES)
def test_the_table_is_the_machine_and_as_small_as_can_be(name: str) -> None:
    """Walked beside the task by hand: a state of the table for each state of the task."""
    task = task_of(name)
    assert task.finite
    machine, state_of = task.machine, {task.start(): 0}
    assert len(machine) == len(machine.minimal()) == STATES[name]
    assert task.answer(task.start()) == task.truth([])
    edge = [task.start()]
    for state in edge:
        for token in range(len(task.vocab)):
            after = task.step(state, token)
            number = machine.transitions[state_of[state]][token]
            assert machine.outputs[number] == task.answer(after)
            if after not in state_of:
                edge.append(after)
            assert state_of.setdefault(after, number) == number
    assert sorted(state_of.values()) == list(range(len(machine)))


class Own(Task):
    """A task of a user's own, wrong in one way or another."""

    name, description, vocab, classes = "own", "mine", ("a",), ("no", "yes")

    def __init__(self, after: Callable[[Any], Any], answer: Any = 0) -> None:
        self.after, self.said = after, answer

    def truth(self, sequence: Sequence[int]) -> int:
        return 0

    def start(self) -> Hashable:
        return 0

    def step(self, state: Any, token: int) -> Hashable:
        return self.after(state)

    def answer(self, state: Any) -> Any:
        return self.said


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        (Own(lambda state: state + 1), "own: more than 65,536 states can be reached: if there are"),
        (Own(lambda state: math.nan), "own: the state nan does not equal itself"),
        (Own(lambda state: [state]), r"own: the state \[0\] cannot be hashed"),
        (
            Own(lambda state: 0, 2),
            "own: answer\\(\\) returned 2 for the state 0: return the number of a class, from 0",
        ),
        (Own(lambda state: 0, "yes"), "own: answer\\(\\) returned 'yes' for the state 0"),
    ],
)
def test_a_task_that_is_no_finite_machine_is_one_sentence(task: Task, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        task.labels(torch.zeros(1, 3, dtype=torch.int64))
    assert "\n" not in str(caught.value)


def test_a_truth_value_or_a_numpy_number_is_an_answer() -> None:
    for answer in (True, np.int64(1)):
        labels = Own(lambda state: 0, answer).labels(torch.zeros(1, 2, dtype=torch.int64))
        assert labels.tolist() == [[1, 1]]


@pytest.mark.parametrize("name", ["parity", "group-S3", "mod3-reset"])
def test_a_task_of_one_s_own_may_not_take_a_name(name: str) -> None:
    own = Own(lambda state: 0)
    own.name = name
    with pytest.raises(InputError, match=f"'{name}' is the name of a built-in task"):
        tasks.resolve(own)
    assert tasks.resolve(tasks.get(name)).name == name
    own.name = "parity-of-mine"
    assert tasks.resolve(own) is own


def test_even_pairs_are_pairs_of_different_neighbours_an_even_number_of_times() -> None:
    task = tasks.get("even-pairs")
    for sequence in every_sequence(2, 8).tolist():
        changes = sum(one != other for one, other in pairwise(sequence))
        assert task.classes[task.truth(sequence)] == ("no" if changes % 2 else "yes")
    assert task.classes[task.answer(task.start())] == "yes"


@pytest.mark.parametrize("name", STATES)
def test_a_router_has_more_places_than_its_task_has_states(name: str) -> None:
    task = task_of(name)
    assert task.preset in ("rotor", "router")
    if task.preset == "router":
        assert task.places > STATES[name]
        assert preset("router", task).model.width == task.places


def test_a_table_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    task = tasks.get("cycle-nav")
    first = task.labels(torch.tensor([[0, 2, 2]]))
    monkeypatch.setattr(type(task), "step", lambda *_: pytest.fail("explored again"))
    assert torch.equal(task.labels(torch.tensor([[0, 2, 2]])), first)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (1, 1)])
def test_labels_of_any_shape(shape: tuple[int, int]) -> None:
    assert tasks.get("flip-flop").labels(torch.zeros(shape, dtype=torch.int64)).shape == shape


@pytest.mark.parametrize("token", [-1, 3])
def test_a_token_that_is_not_there_is_refused(token: int) -> None:
    with pytest.raises(InputError, match="tokens must be numbers from 0 to 2"):
        tasks.get("cycle-nav").labels(torch.tensor([[0, token]]))


def test_a_row_of_a_million_tokens_is_labelled() -> None:
    task = tasks.get("flip-flop")
    tokens = task.sample(1, 1_000_000, torch.Generator().manual_seed(0))
    labels = task.labels(tokens)
    assert labels[0, -1] == task.truth(tokens[0].tolist())
    # After a hundred tokens a bit has been written, whatever was there before.
    assert torch.equal(labels[0, -900:], task.labels(tokens[:, -1000:])[0, -900:])
