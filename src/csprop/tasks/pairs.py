"""Pairs of tokens that training never sees side by side: does a model compose what it knows?"""

from typing import TYPE_CHECKING

from csprop.data.examples import Examples
from csprop.errors import InputError
from csprop.tasks.base import Task

if TYPE_CHECKING:
    from torch import Generator, Tensor


def hold_pairs(
    task: Task, training: Examples, held_out: Examples, share: float, generator: "Generator"
) -> tuple[Examples, Examples]:
    """Remove a share of all ordered pairs of tokens from the training set.

    After each token the same number of tokens, drawn at random, never follows. In the training set
    these are replaced by others, from the left to the right. The held-out set keeps the sequences that
    contain such a pair. Without any such sequence this raises an InputError.
    """
    check_share(task, share)
    held = draw_pairs(len(task.vocab), share, generator)
    tokens = held_out.tokens
    rows = held[tokens[:, :-1], tokens[:, 1:]].any(dim=1)
    if not rows.any():
        raise InputError(
            f"{task.name}: no held-out sequence contains a pair that is held out: write a greater "
            "length, or more samples"
        )
    return task.labelled(avoid_pairs(training.tokens, held, generator)), held_out[rows]


def check_share(task: Task, share: float) -> None:
    """Raise an InputError for a file or a `WholeTask`, and a share that leaves no or every pair."""
    if task.oracle is None or not task.total:
        raise InputError(f"pairs of {task.name} cannot be held out: leave it out", "hold_pairs", share)
    symbols = len(task.vocab)
    count = round(share * symbols)
    if not 1 <= count < symbols:
        raise InputError(
            f"would keep {count} of {symbols} tokens from following a token: write a share from "
            f"{1 / symbols:.2g} to {(symbols - 1) / symbols:.2g}",
            "hold_pairs",
            share,
        )


def draw_pairs(symbols: int, share: float, generator: "Generator") -> "Tensor":
    """Return True where a token never follows another, (symbols, symbols): [earlier, later]."""
    import torch

    count = round(share * symbols)
    held = torch.zeros(symbols, symbols, dtype=torch.bool)
    for row in held:
        row[torch.randperm(symbols, generator=generator)[:count]] = True
    return held


def avoid_pairs(tokens: "Tensor", held: "Tensor", generator: "Generator") -> "Tensor":
    """Draw every token again that may not follow the one before it, in sequences (N, T)."""
    import torch

    tokens = tokens.clone()
    for step in range(1, tokens.shape[1]):
        before = tokens[:, step - 1]
        drawn = torch.multinomial((~held[before]).double(), 1, generator=generator)[:, 0]
        tokens[:, step] = torch.where(held[before, tokens[:, step]], drawn, tokens[:, step])
    return tokens
