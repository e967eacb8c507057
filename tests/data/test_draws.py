"""Random draws by NumPy are those of torch, number for number."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from csprop.data.draws import Draws, NumpyDraws, TorchDraws, derive_seed
from csprop.tasks import catalogue
from csprop.tasks.base import Task
from csprop.training.seeding import generator


def both(seed: int) -> tuple[Draws, Draws]:
    return TorchDraws(torch.Generator().manual_seed(seed)), NumpyDraws(seed)


@given(
    seed=st.integers(0, 2**64 - 1),
    limits=st.lists(st.tuples(st.integers(0, 9), st.integers(10, 2**28 - 1)), max_size=3),
    rows=st.integers(0, 70),
    columns=st.integers(0, 9),
)
def test_numpy_draws_what_torch_does(
    seed: int, limits: list[tuple[int, int]], rows: int, columns: int
) -> None:
    """In any order: each draw begins where the one before ended."""
    theirs, ours = both(seed)
    for least, limit in [*limits, (0, 2)]:
        asked = [
            (draws.below(limit, (rows, columns), least), draws.fractions((rows, columns)),
             draws.permutation(rows), draws.fractions((rows, 1), single=True))
            for draws in (theirs, ours)
        ]  # fmt: skip
        for their, our in zip(*asked, strict=True):
            assert (their.dtype, their.shape) == (our.dtype, our.shape)
            assert np.array_equal(their, our)


def test_a_long_permutation() -> None:
    theirs, ours = both(7)
    assert np.array_equal(theirs.permutation(100_000), ours.permutation(100_000))


@pytest.mark.parametrize("task", catalogue(), ids=lambda task: task.name)
def test_a_task_draws_the_same_rows(task: Task) -> None:
    length = task.length_from(9)
    tokens = task.sample(200, length, generator(3, "eval", length))
    drawn = task.draw(200, length, NumpyDraws(derive_seed(3, "eval", length)))
    assert torch.equal(tokens, torch.from_numpy(drawn))
    assert torch.equal(task.labels(tokens), torch.from_numpy(task.classify(drawn)))
