"""Pairs of tokens that are held out do not occur in training, and occur in every held-out sequence."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Generator

from csprop import tasks
from csprop.errors import InputError
from csprop.tasks.pairs import avoid_pairs, draw_pairs
from csprop.training.batches import training_data
from csprop.training.config import configure


def seen(tokens: torch.Tensor) -> set[tuple[int, int]]:
    return {pair for row in tokens.tolist() for pair in pairwise(row)}


@pytest.mark.parametrize("seed", [0, 1])
def test_a_third_of_the_pairs_never_occur_in_training_and_all_others_do(seed: int) -> None:
    task = tasks.get("group-S3xS3-all")
    config = configure(task, seed=seed, length=8, hold_pairs=1 / 3)
    training, held_out = training_data(task, config)
    trained = seen(training.tokens)
    missing = {(a, b) for a in range(36) for b in range(36)} - trained
    assert len(missing) == 36 * 36 // 3
    for row in held_out.tokens.tolist():
        assert missing & set(pairwise(row))
    for part in (training, held_out):
        for tokens, labels in zip(part.tokens[:50].tolist(), part.labels[:50].tolist(), strict=True):
            assert labels == [task.truth(tokens[: t + 1]) for t in range(8)]
    again, _ = training_data(task, config)
    assert torch.equal(again.tokens, training.tokens)


def test_the_pairs_depend_on_the_seed_and_without_the_option_all_occur() -> None:
    task = tasks.get("cycle-nav")
    kept = [
        seen(training_data(task, configure(task, seed=seed, hold_pairs=0.34))[0].tokens)
        for seed in range(4)
    ]
    assert all(len(pairs) == 6 for pairs in kept)
    assert len(set(map(frozenset, kept))) > 1
    assert len(seen(training_data(task, configure(task))[0].tokens)) == 9


def test_what_may_follow_follows_equally_often() -> None:
    generator = Generator().manual_seed(0)
    held = draw_pairs(6, 0.5, generator)
    assert held.sum(dim=1).tolist() == [3] * 6
    tokens = avoid_pairs(torch.randint(6, (6000, 30), generator=generator), held, generator)
    pairs = torch.stack([tokens[:, :-1].flatten(), tokens[:, 1:].flatten()])
    counts = (pairs[0] * 6 + pairs[1]).bincount(minlength=36).reshape(6, 6).double()
    assert not counts[held].any()
    shares = counts / counts.sum(dim=1, keepdim=True)
    assert (shares[~held] - 1 / 3).abs().max() < 0.015


def test_a_share_that_cannot_be_is_one_sentence() -> None:
    with pytest.raises(
        InputError, match="would keep 0 of 2 tokens from following a token: write a share"
    ):
        training_data(tasks.get("parity"), configure("parity", hold_pairs=0.1))
    with pytest.raises(InputError, match="would keep 2 of 2"):
        training_data(tasks.get("parity"), configure("parity", hold_pairs=0.9))
    with pytest.raises(InputError, match="hold_pairs=2"):
        configure("parity", hold_pairs=2.0)
    with pytest.raises(InputError, match="no held-out sequence contains a pair that"):
        training_data(
            tasks.get("cycle-nav"), configure("cycle-nav", length=1, hold_pairs=0.5, split="paper")
        )


def test_pairs_of_a_file_cannot_be_held_out(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("sequence,label\n" + "".join(f"{i:05b},{i % 2}\n" for i in range(32)))
    task = tasks.from_file(path)
    with pytest.raises(InputError, match="pairs of rows cannot be held out"):
        training_data(task, configure(task, hold_pairs=0.5))
