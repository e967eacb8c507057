"""The word problems: the groups are groups, and their words are read in the documented order."""

from itertools import permutations, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from csprop import tasks
from csprop.errors import InputError
from csprop.tasks.base import every_sequence
from csprop.tasks.group import GROUPS, Group

SIZES = {"S3": 6, "A4": 12, "S4": 24, "A5": 60, "S5": 120, "S3xS3": 36}


def matrix(name: str) -> np.ndarray:
    """Return the matrix of a permutation in one-line notation: it takes basis vector i to image(i)."""
    found = np.zeros((len(name), len(name)), dtype=int)
    for place, image in enumerate(name):
        found[int(image), place] = 1
    return found


def name_of(found: np.ndarray) -> str:
    return "".join(map(str, found.argmax(axis=0)))


@pytest.mark.parametrize(("group", "size"), SIZES.items())
def test_the_classes_are_the_group(group: str, size: int) -> None:
    classes = Group(group).classes
    degree = 6 if group == "S3xS3" else int(group[1])
    assert len(set(classes)) == size
    assert classes[0] == "".join(map(str, range(degree)))
    wanted = ["".join(map(str, each)) for each in permutations(range(degree))]
    if group[0] == "A":  # by determinants, where the code counts inversions
        wanted = [name for name in wanted if np.linalg.det(matrix(name)) > 0]
    if group == "S3xS3":  # those that keep the two triples of points apart
        wanted = [name for name in wanted if set(name[:3]) == set("012")]
    assert set(classes) == set(wanted)


@pytest.mark.parametrize(
    ("group", "images"),
    [
        ("S3", ["102", "120"]),
        ("A4", ["1032", "1203"]),
        ("S4", ["1023", "0231"]),
        ("A5", ["12034", "12340"]),
        ("S5", ["10234", "12340"]),
        ("S3xS3", ["102345", "120345", "012435", "012453"]),
    ],
)
def test_the_generators_are_the_described_ones(group: str, images: list[str]) -> None:
    task = Group(group)
    assert [task.classes[task.truth([token])] for token in range(len(task.vocab))] == images
    for token, cycle in zip(task.vocab, GROUPS[group].generators, strict=True):
        assert f"{token}={cycle}" in task.description


@pytest.mark.parametrize("group", SIZES)
def test_words_of_one_length_reach_every_class(group: str) -> None:
    """Two odd generators would give only even products, or only odd ones, at a length."""
    task = Group(group)
    labels = task.labels(task.sample(4000, 24, torch.Generator().manual_seed(0)))[:, -1]
    assert len(labels.unique()) == SIZES[group]


@pytest.mark.parametrize("group", SIZES)
def test_all_pairs_are_products_of_matrices_in_the_order_of_reading(group: str) -> None:
    """A word of two tokens, p and then g, is the matrix product g·p: the later one on the left."""
    task = tasks.get(f"group-{group}-all")
    size = len(task.vocab)
    table = task.labels(every_sequence(size, 2))[:, 1].reshape(size, size).numpy()  # [p, g]: p, then g
    by_matrices = {name: number for number, name in enumerate(task.classes)}
    elements = np.stack([matrix(name) for name in task.classes])  # (S, n, n)
    products = np.einsum("gij,pjk->pgik", elements, elements).argmax(axis=2)  # (S, S, n) one-line
    for p, g in product(range(size), repeat=2):
        assert table[p, g] == by_matrices["".join(map(str, products[p, g]))]
    assert not np.array_equal(table, table.T)  # or the order of reading would not matter


@given(st.sampled_from(list(SIZES)), st.sampled_from(["", "all"]), st.data())
def test_a_word_is_the_product_of_its_matrices_the_last_one_on_the_left(
    group: str, tokens: str, data: st.DataObject
) -> None:
    task = TASKS[group, tokens]
    word = data.draw(st.lists(st.integers(0, len(task.vocab) - 1), max_size=30))
    total = np.eye(len(task.classes[0]), dtype=int)
    for token in word:
        total = matrix(task.classes[task.truth([token])]) @ total
    assert task.classes[task.truth(word)] == name_of(total)


TASKS = {(group, tokens): Group(group, tokens) for group in SIZES for tokens in ("", "all")}


@given(st.integers(2, 1000), st.data())
def test_a_word_of_a_cyclic_group_is_a_power_of_one_rotation(size: int, data: st.DataObject) -> None:
    """The generator as a turn of the complex plane: the word turns by as much as its class says."""
    kind = data.draw(st.sampled_from(("", "-all", f"-{max(2, size // 2 + 1)}" if size > 2 else "")))
    task = tasks.get(f"group-C{size}{kind}")
    word = data.draw(st.lists(st.integers(0, len(task.vocab) - 1), max_size=30))
    turns = np.exp(2j * np.pi * np.array([int(task.vocab[token]) for token in word]) / size)
    found = np.exp(2j * np.pi * int(task.classes[task.truth(word)]) / size)
    assert abs(np.prod(turns) - found) < 1 / size


@pytest.mark.parametrize("size", [*range(2, 40), 60, 1000])
def test_some_elements_of_a_cyclic_group_are_a_task_if_they_generate_it(size: int) -> None:
    """By adding elements until nothing new comes."""
    for some in {2, 3, size // 2, size // 3, size - 1} & set(range(2, size)):
        elements = {i * size // some for i in range(some)}
        found = edge = {0}
        while edge:
            edge = {(one + other) % size for one in edge for other in elements} - found
            found = found | edge
        if len(found) == size:
            assert set(map(int, tasks.get(f"group-C{size}-{some}").vocab)) == elements
        else:
            with pytest.raises(InputError, match=f"generate only {len(found)} of {size}:"):
                tasks.get(f"group-C{size}-{some}")
