"""The authors' variants and their RNN, trained as their code trains them, beside what they report."""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from csprop.tasks import get
from csprop_lab.layers.basic import PeerConfig
from csprop_lab.released.config import UPLOADS, upload
from csprop_lab.study.job import Job, network, sizes_of
from csprop_lab.study.measure import SAMPLING, Row
from csprop_lab.study.table import Budget, Label, Rows, Table, values
from csprop_lab.study.texts import markdown, read_numbers, words

LENGTHS = (16, 32, 64)
NO_SPREAD = 2e-4
"""A standard deviation below this does not measure a difference."""
ENOUGH = 30
"""The RNN stops after so many epochs at 100% held out: it is slow here, and right everywhere."""


class Reported(NamedTuple):
    """The authors' numbers for a model on a task."""

    task: str
    model: str
    """One of `UPLOADS`, or RNN."""
    parameters: int
    at: list[tuple[float, float, str]]
    """At each length the mean and the sample standard deviation of the five seeds in their result
    files at 778a15c, and what their readme says."""
    drawn: bool = False
    """True if strings have a drawn length there: every even one up to L is equally likely."""


AUTHORS = tuple(Reported(**each) for each in read_numbers("authors.json"))


class Readme(Table):
    name, title = "readme", "Beside the authors' readme"

    def jobs(self, budget: Budget) -> dict[Label, list[Job]]:
        return {
            (each.task, each.model): [job(each, seed, budget) for seed in range(budget.few_seeds)]
            for each in AUTHORS
        }

    def text(self, rows: Rows, budget: Budget) -> str:
        headings = [
            "task", "model", "parameters: ours, theirs", "L", "ours", "their result files",
            "their readme", "difference in their standard deviations",
        ]  # fmt: skip
        lines, apart = [], []
        for each in AUTHORS:
            seeds = rows[each.task, each.model]
            sizes = f"{max(values(seeds, 'parameters')):,.0f}, {each.parameters:,}"
            for length, (mean, std, said) in zip(LENGTHS, each.at, strict=True):
                ours = [accuracy(row, length, each.drawn) for row in seeds]
                spread = statistics.stdev(ours) if len(ours) > 1 else 0.0
                if length < LENGTHS[-1] and abs(statistics.fmean(ours) - mean) > 2 * std + 5e-5:
                    apart.append(
                        f"{each.model} on {each.task} at {length} by "
                        f"{statistics.fmean(ours) - mean:+.4f} (seeds {_listed(ours)})"
                    )
                lines.append(
                    [
                        each.task, each.model, sizes, str(length),
                        f"{statistics.fmean(ours):.4f} ± {spread:.4f}", f"{mean:.4f} ± {std:.4f}", said,
                        deviations(statistics.fmean(ours), mean, std),
                    ]
                )  # fmt: skip
        return words(
            "readme", seeds=budget.few_seeds, most=SAMPLING.most, epochs=budget.epochs, enough=ENOUGH,
            table=markdown(headings, lines), apart="; ".join(apart) or "none",
        )  # fmt: skip


def _listed(accuracies: Sequence[float]) -> str:
    return ", ".join(f"{each:.3f}" for each in accuracies)


def job(of: Reported, seed: int, budget: Budget) -> Job:
    """One run, tested over all positions."""
    tested = tuple(range(2, LENGTHS[-1] + 1, 2)) if of.drawn else LENGTHS
    changes: dict[str, Any] = {"epochs": budget.epochs, "split": "paper"}
    changes |= {"samples": budget.few_samples} if budget.few_samples else {}
    task = get(of.task)
    config, recipe = upload(of.model if of.model in UPLOADS else "released", task)
    if of.model == "RNN":
        changes["hold"] = ENOUGH
        config = PeerConfig(kind="RNN", width=32, depth=1, **sizes_of(task))
    recipe = replace(recipe, **changes)
    return network(of.task, config, recipe, seed, test_lengths=tested, positions=True)


def accuracy(row: Row, length: int, drawn: bool) -> float:
    """Over all positions at a length, or at every even length up to it; 0 if it diverged."""
    by_length = {int(tested): value for tested, value in row.get("lengths", {}).items()}
    if not drawn:
        return by_length.get(length, 0.0)
    tested = {each: value for each, value in by_length.items() if each <= length}
    return sum(each * value for each, value in tested.items()) / max(1, sum(tested))


def deviations(ours: float, mean: float, std: float) -> str:
    """Return the distance of our mean from theirs, in their standard deviations."""
    apart = ours - mean
    if abs(apart) < 5e-5:
        return "0"
    return f"{apart / std:+.1f}" if std >= NO_SPREAD else f"{apart:+.4f} (theirs hardly vary)"
