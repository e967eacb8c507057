"""The explorer of a page: the models in it, and its first view."""

import copy
import json
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from typing import Any

import torch
from torch import Tensor

from csprop.errors import InputError
from csprop.report import embed
from csprop.report.page import Page, asset, paragraph
from csprop.report.read import PageRun
from csprop.training.seeding import generator

MOST_EMBEDDED = 5 * 2**20
"""Bytes of all models on a page; a larger page would be slow to open."""
ROWS = 16
"""Sequences of each length on which two models may differ."""
TIMES, LONGEST = (2, 4, 16, 64, 256), 2048
"""Their lengths, as multiples of the trained length, and the longest."""
AFTER = 8
"""Tokens after the wrong answer."""


def add_explorer(page: Page, runs: Sequence[PageRun]) -> None:
    """Add the explorer with as many models as fit, and a sentence for each of the others."""
    room, sentences = MOST_EMBEDDED, []
    tasks: dict[str, int] = {}  # a task's JSON to its number
    for number, each in enumerate(runs):
        recipe, task = each.run.config.recipe, json.dumps(embed.embed_task(each.run))
        only_last = recipe.supervise == "last" and recipe.lengths == "fixed"
        # The first token on whose answer it was trained.
        asked = recipe.length if only_last and each.run.made == "trained" else 1
        entry = {"run": number, "task": tasks.get(task, len(tasks)), "asked": asked}
        try:
            entries = [entry | model for model in _embed_models(each)]
            size = len(json.dumps(entries)) + (0 if task in tasks else len(task))
            if size > room:
                raise InputError(
                    f"it would add {size / 2**20:.1f} MB to the page, which holds at most "
                    f"{MOST_EMBEDDED / 2**20:.0f} MB of models"
                )
        except InputError as error:
            sentences.append(f"{each.name}: this model is not in the explorer, because {error}.")
            continue
        room -= size
        if task not in tasks:
            tasks[task] = len(tasks)
            page.tasks.append(json.loads(task))
        page.models += entries
    if page.models:
        page.opening = _choose_opening(runs, page.models)
        page.sections.append(asset("explorer.html"))
    page.sections += map(paragraph, sentences)


def _embed_models(each: PageRun) -> list[dict[str, Any]]:
    """Embed a run's model, and before it the locked one, if there is one and it differs."""
    locked, automaton, entries = each.run.locked, each.run.automaton, []
    for model in each.models:
        name = f"{each.name}, {model}" if len(each.models) > 1 else each.name
        entry = {"name": name, "colour": each.colours[model], "proof": each.proof(model)}
        if locked is not None and automaton is not None and model != "as trained":
            entries.append(entry | {"sure": False} | embed.embed_locked(locked, automaton))
        else:
            with suppress(InputError) if entries else nullcontext():  # the locked model is enough
                entries.append(entry | {"sure": True} | embed.embed_network(each.run.model))
    return entries


def _choose_opening(runs: Sequence[PageRun], models: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Choose the first model, the one beside it, and where they differ.

    The first is a locked model if there is one. The second is a model of the same task that was
    made in another way and has no automaton, or else the model from which the first was made. The page
    begins where the second is wrong and the first is right, if one of a few random sequences leads
    there.
    """
    one = next((number for number, each in enumerate(models) if "automaton" in each), 0)
    first, source = models[one], [runs[each["run"]].run.task.source for each in models]
    alike = [n for n in range(len(models)) if n != one and source[n] == source[one]]
    twins = [n for n in alike if models[n]["run"] == first["run"]]
    known = {first["colour"], *(models[n]["colour"] for n in twins)}
    others = [n for n in alike if "automaton" not in models[n] and models[n]["colour"] not in known]
    pair = [one, *(others + twins)[:1]]
    tokens, at = _find_difference(runs, [models[n] for n in pair]) or (None, None)
    return {"models": pair, "tokens": tokens, "at": at}


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
