"""The explorer's first view: two models, and a sequence on which they differ."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from csprop.report.read import PageRun
from csprop.training.seeding import generator

ROWS = 16
"""Sequences to try of each length."""
TIMES = (2, 4, 16, 64, 256)
"""Their lengths, as multiples of the trained length."""
LONGEST = 2048
"""The longest of them."""
AFTER = 8
"""Tokens after the wrong answer."""


def choose_opening(runs: Sequence[PageRun], models: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Choose the first model, the one beside it, and where they differ; None if there are no models.

    The first is a locked model if there is one. The second is a model of the same task that was
    made in another way and has no automaton, or else the model from which the first was made. The page
    begins where the second is wrong and the first is right, if one of a few random sequences leads
    there.
    """
    if not models:
        return None
    first = next((each for each in models if "automaton" in each), models[0])
    alike = [
        each
        for each in models
        if each is not first and runs[each["run"]].run.task.source == runs[first["run"]].run.task.source
    ]
    twins = [each for each in alike if each["run"] == first["run"]]
    known = {first["colour"], *(each["colour"] for each in twins)}
    others = [each for each in alike if "automaton" not in each and each["colour"] not in known]
    pair = [first, *(others + twins)[:1]]
    difference = _find_difference(runs, pair)
    numbers = [next(n for n, each in enumerate(models) if each is one) for one in pair]
    tokens, at = difference or (None, None)
    return {"models": numbers, "tokens": tokens, "at": at}


def _find_difference(
    runs: Sequence[PageRun], pair: Sequence[dict[str, Any]]
) -> tuple[list[int], int] | None:
    """Find a sequence, and after how many tokens the last model is wrong and the first is right."""
    run = runs[pair[-1]["run"]].run
    if run.task.oracle is None or not run.task.total or pair[-1]["proof"][1] == "yes":
        return None
    trained = run.config.recipe.length
    for length in dict.fromkeys(run.task.length_from(min(LONGEST, n * trained)) for n in TIMES):
        longer = run.task.length_from(length + AFTER)
        rows = run.task.sample(ROWS, longer, generator(run.config.seed, "opening"))
        labels = run.task.labels(rows)
        differs = _answers(run.model, rows) != labels
        for each in pair[:-1]:
            if each["proof"][1] != "yes":
                other = runs[each["run"]].run.answering(as_trained=True)
                differs &= _answers(other, rows) == labels
        differs[:, : max(each["asked"] for each in pair) - 1] = False
        differs[:, length:] = False
        if differs.any():
            first = torch.where(differs.any(dim=1), differs.int().argmax(dim=1), longer)
            row, at = int(first.argmin()), int(first.min()) + 1
            return rows[row, : at + AFTER].tolist(), at
    return None


def _answers(model: Any, rows: Tensor) -> Tensor:
    """Return the answers of a model after every token, in double precision, as the page computes."""
    with torch.no_grad():
        return copy.deepcopy(model).double().eval()(rows).argmax(dim=2)
