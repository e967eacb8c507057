"""From the printed model to the one in the authors' public code, one difference at a time, and back."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from csprop.tasks import get
from csprop.training.presets import Recipe
from csprop.training.scores import percent
from csprop_lab.released.config import UPLOADS, ReleasedConfig
from csprop_lab.study.job import Job, csp, network, sizes_of
from csprop_lab.study.length import accuracies
from csprop_lab.study.main import length_of
from csprop_lab.study.measure import Row
from csprop_lab.study.table import HOLD, Budget, Label, Rows, Table, exact, values
from csprop_lab.study.texts import markdown, words

TASKS = ("parity", "mod3-residue", "parenthesis")
LENGTHS = (17, 32, 64)
PRINTED, RELEASED = "printed", "released"
SUMMED, ATAN2 = {"angle": "accumulated"}, {"projection": "atan2"}
WHOLE = {"supervise": "last"}
ONE_BY_ONE: dict[str, dict[str, Any]] = {
    "the angle summed": SUMMED,
    "the angle by atan2": ATAN2,
    "decay exp": {"decay": "exp"},
    "an input map": {"input_map": "linear"},
    "the sine gate": {"entrance": "sine"},
    "gates of what enters": {"gate_input": "entering"},
    "gates of the state": {"gate_input": "state"},
    "a narrow embedding": {"embedding": "narrow"},
    "ε under the root": {"norm": "root"},
    "width 32": {"width": 32},
}
"""Each difference, made in the printed model."""
TOGETHER: dict[str, dict[str, Any]] = {
    "summed, atan2": SUMMED | ATAN2,
    "summed, exp": SUMMED | {"decay": "exp"},
    "summed, input map": SUMMED | {"input_map": "linear"},
    "summed, atan2, exp": SUMMED | ATAN2 | {"decay": "exp"},
    "summed, input map, exp": SUMMED | {"input_map": "linear", "decay": "exp"},
    "summed, input map, atan2": SUMMED | ATAN2 | {"input_map": "linear"},
}
"""Some of them together."""
SUM, SUM_AND_MAP = f"{PRINTED}, the angle summed", f"{PRINTED}, summed, input map"
AND_EXP = f"{SUM_AND_MAP}, exp"
WITHOUT: dict[str, dict[str, Any]] = {
    "the sum": {"angle": "tanh"},
    "atan2": {"projection": "tanh"},
    "decay exp": {"decay": "softplus"},
    "the input map": {"input_map": "none"},
    "the sine gate": {"entrance": "softplus"},
    "gates of what enters": {"gate_input": "input"},
    "the narrow embedding": {"embedding": "complex"},
    "ε under the root": {"norm": "complex"},
    "width 32": {"width": 64},
}
"""The printed part in place of each part of the released model."""
LAST = UPLOADS["released"]
VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    f"{PRINTED}, label of the whole": ({}, WHOLE),
    PRINTED: ({}, {}),
    **{f"{PRINTED}, {name}": (model, {}) for name, model in (ONE_BY_ONE | TOGETHER).items()},
    RELEASED: (LAST, {}),
    **{f"{RELEASED} without {name}": (LAST | model, {}) for name, model in WITHOUT.items()},
    f"{RELEASED}, label of the whole": (LAST, WHOLE),
    "released-fast": (UPLOADS["released-fast"], {}),
    "released-first": (UPLOADS["released-first"], {}),
}
"""By name, the options of the model in which it differs from the printed one, and of the recipe."""


class Released(Table):
    name, title = "released", "From the printed model to the released one"

    def jobs(self, budget: Budget) -> dict[Label, list[Job]]:
        recipe = {
            "split": "disjoint", "samples": budget.few_samples, "supervise": "every",
            "loss": "cross_entropy", "lr": 1e-3, "epochs": budget.few_epochs, "hold": HOLD,
        }  # fmt: skip
        return {
            (variant, task): [
                job(task, model, Recipe(length=get(task).length, **recipe | changes), seed)
                for seed in range(budget.few_seeds)
            ]
            for task in TASKS
            for variant, (model, changes) in VARIANTS.items()
        }

    def text(self, rows: Rows, budget: Budget) -> str:
        brackets = TASKS[-1]
        return words(
            "released", seeds=budget.few_seeds, epochs=budget.few_epochs, hold=HOLD, brackets=brackets,
            with_sum=right(rows[RELEASED, brackets]),
            without=right(rows[f"{RELEASED} without the sum", brackets]),
            tables="\n\n".join(self._of(task, rows) for task in TASKS),
        )  # fmt: skip

    def _of(self, task: str, rows: Rows) -> str:
        lengths = [length_of(task, length) for length in LENGTHS]
        headings = [
            task, "parameters", "held out", "seeds right on all 65,536 inputs",
            *(f"at {length}" for length in lengths),
        ]  # fmt: skip
        lines = []
        for variant in VARIANTS:
            seeds = rows[variant, task]
            far = accuracies(seeds, variant)
            line = [variant, f"{max(values(seeds, 'parameters')):,.0f}", held_out(seeds), right(seeds)]
            lines.append(line + [percent(far[length]) for length in lengths])
        return markdown(headings, lines)


def job(task: str, model: dict[str, Any], recipe: Recipe, seed: int) -> Job:
    """Return one run; csprop's own model takes those that it has all options for."""
    tested = tuple(length_of(task, length) for length in LENGTHS)
    if model.keys() <= {"decay", "width"}:
        options = vars(recipe) | model
        return csp(task, "paper", seed, every_input=True, test_lengths=tested, **options)
    config = ReleasedConfig(**sizes_of(get(task)), **model)
    return network(task, config, recipe, seed, every_input=True, test_lengths=tested)


def claim(rows: Rows) -> str:
    """Return the first section of the report: the decisive differences."""
    counting = TASKS[:2]

    def on_each(variant: str, show: Callable[[Sequence[Row]], str]) -> str:
        return " and ".join(f"{show(rows[variant, task])} on {task}" for task in counting)

    def seeds_right(variant: str) -> str:
        first, second = (right(rows[variant, task]) for task in counting)
        return f"{first} seeds on {counting[0]} and {second} on {counting[1]}"

    trained = [row for (_, task), seeds in rows.items() if task in counting for row in seeds]
    summed = [row for row in trained if row["job"]["model"].get("angle") == "accumulated"]
    unsummed = [row for row in trained if row not in summed]
    far = accuracies(rows[RELEASED, "parity"], RELEASED)
    return words(
        "claim", printed=seeds_right(PRINTED), released=seeds_right(RELEASED),
        unsummed=len(unsummed), unsummed_right=exact(unsummed).count(0), summed=len(summed),
        summed_right=exact(summed).count(0), sum=seeds_right(SUM),
        sum_and_map=on_each(SUM_AND_MAP, held_out), and_exp=seeds_right(AND_EXP),
        at_32=percent(far[32]), at_64=percent(far[64]),
    )  # fmt: skip


def held_out(seeds: Sequence[Row]) -> str:
    """The mean held-out accuracy, and in brackets the worst, where it differs."""
    found = values(seeds, "accuracy")
    mean, worst = statistics.fmean(found), min(found)
    return percent(mean) if mean == worst else f"{percent(mean)} ({percent(worst)})"


def right(seeds: Sequence[Row]) -> str:
    """Return the number of seeds that got all inputs right."""
    return f"{exact(seeds).count(0)} of {len(seeds)}"
