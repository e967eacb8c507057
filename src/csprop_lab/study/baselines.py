"""Other models on the same data with the same budget; the paper argues against one kind, Mamba."""

from typing import get_args

from csprop.tasks import get
from csprop.training.presets import Recipe
from csprop.training.scores import percent
from csprop_lab.layers.basic import Kind, PeerConfig
from csprop_lab.study.grids import cell
from csprop_lab.study.job import Job, csp, network, sizes_of
from csprop_lab.study.length import accuracies
from csprop_lab.study.table import HOLD, TASKS, Budget, Label, Rows, Table, column, values
from csprop_lab.study.texts import markdown, words

TESTED, LONGER = "parity", (32, 256)
"""The task that is also tested beyond the trained length, and where."""


class Baselines(Table):
    name, title = "baselines", "Baselines"

    def jobs(self, budget: Budget) -> dict[Label, list[Job]]:
        recipe = Recipe(
            split="disjoint", samples=budget.few_samples, supervise="every", lr=3e-3,
            epochs=budget.few_epochs, hold=HOLD,
        )  # fmt: skip
        seeds, options = range(budget.few_seeds), vars(recipe)
        jobs: dict[Label, list[Job]] = {}
        for kind in get_args(Kind):
            for task in TASKS:
                config = PeerConfig(kind=kind, width=32, depth=2, **sizes_of(get(task)))
                jobs[kind, task] = [
                    network(task, config, recipe, seed, test_lengths=LONGER) for seed in seeds
                ]
        for preset in ("paper", "rotor"):
            for task in TASKS:
                jobs[f"csprop, {preset}", task] = [
                    csp(task, preset, seed, test_lengths=LONGER, **options) for seed in seeds
                ]
        return jobs

    def text(self, rows: Rows, budget: Budget) -> str:
        headings = ["model", "parameters", *map(column, TASKS)]
        headings += [f"{TESTED} at {length}" for length in LONGER]
        lines = []
        for model in dict.fromkeys(model for model, _ in rows):
            parameters = max(values(rows[model, TESTED], "parameters"))
            far = accuracies(rows[model, TESTED], model).values()
            cells = [cell(rows[model, task]) for task in TASKS]
            lines.append([model, f"{parameters:,.0f}", *cells, *map(percent, far)])
        return words(
            "baselines", seeds=budget.few_seeds, epochs=budget.few_epochs, hold=HOLD,
            cell=words("cell"), table=markdown(headings, lines),
        )  # fmt: skip
