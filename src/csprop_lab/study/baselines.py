"""Other models on the same data with the same budget; the paper argues against one kind, Mamba."""

from typing import get_args

from csprop.training.presets import Recipe
from csprop.training.scores import percent
from csprop_lab.layers.plain import Kind
from csprop_lab.study.grid import CELL, cell
from csprop_lab.study.job import Job, csp, peer
from csprop_lab.study.length import accuracies
from csprop_lab.study.table import HOLD, TASKS, Budget, Label, Rows, Table, column, markdown, values

TESTED, LONGER = "parity", (32, 256)
"""The task that is also tested beyond the trained length, and where."""


class Baselines(Table):
    name, title = "baselines", "Baselines"

    def jobs(self, budget: Budget) -> dict[Label, list[Job]]:
        recipe = Recipe(
            split="disjoint",
            samples=budget.few_samples,
            supervise="every",
            lr=3e-3,
            epochs=budget.few_epochs,
            hold=HOLD,
        )
        seeds, options = range(budget.few_seeds), vars(recipe)
        jobs: dict[Label, list[Job]] = {}
        for kind in get_args(Kind):
            for task in TASKS:
                jobs[kind, task] = [peer(task, kind, seed, recipe, LONGER) for seed in seeds]
        for preset in ("paper", "rotor"):
            for task in TASKS:
                jobs[f"csprop, {preset}", task] = [
                    csp(task, preset, seed, test_lengths=LONGER, **options) for seed in seeds
                ]
        return jobs

    def text(self, rows: Rows, budget: Budget) -> str:
        headings = [
            "model",
            "parameters",
            *map(column, TASKS),
            *(f"{TESTED} at {length}" for length in LONGER),
        ]
        lines = []
        for model in dict.fromkeys(model for model, _ in rows):
            parameters = max(values(rows[model, TESTED], "parameters"))
            far = accuracies(rows[model, TESTED], model).values()
            cells = [cell(rows[model, task]) for task in TASKS]
            lines.append([model, f"{parameters:,.0f}", *cells, *map(percent, far)])
        return (
            "All models are trained with one recipe: a label at every step, Adam at 0.003, batches of "
            f"64, the disjoint split, {budget.few_seeds} seeds, up to {budget.few_epochs} epochs, "
            f"stopped once the held-out accuracy had been 100% for {HOLD}. They have width 32 and 2 "
            "layers; of csprop's presets only the architectures are used here: `paper` has width 64 "
            "and 3 layers, `rotor` has 32 channels and one layer, or two for parenthesis. An SSM is a "
            "diagonal selective state-space model, like Mamba's, with eigenvalues in the range given. "
            "The learning rate is the same for all and was not tuned: a model that fails here may "
            f"learn with another. {CELL} The last columns give the mean accuracy over the seeds beyond "
            "the trained length of 16.\n\n" + markdown(headings, lines)
        )
