"""Other models on the same data with the same budget, among them the paper's argument against Mamba."""

from typing import get_args

from csprop.nn.peers import Kind
from csprop.study.grid import CELL, cell
from csprop.study.job import Job, csp, peer
from csprop.study.length import accuracies
from csprop.study.table import HOLD, TASKS, Budget, Label, Rows, Table, markdown, percent, values
from csprop.training.presets import Recipe

LONGER = (32, 256)


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
        found: dict[Label, list[Job]] = {}
        for kind in get_args(Kind):
            for task in TASKS:
                found[kind, task] = [peer(task, kind, seed, recipe, LONGER) for seed in seeds]
        for preset in ("paper", "rotor"):
            for task in TASKS:
                found[f"csprop, {preset}", task] = [
                    csp(task, preset, seed, test_lengths=LONGER, **options) for seed in seeds
                ]
        return found

    def text(self, rows: Rows, budget: Budget) -> str:
        headings = [
            "model",
            "parameters",
            *TASKS[:3],
            "parenthesis, F1",
            *(f"parity at {length}" for length in LONGER),
        ]
        lines = []
        for model in dict.fromkeys(model for model, _ in rows):
            parameters = max(values(rows[model, "parity"], "parameters"))
            far = accuracies(rows[model, "parity"], model).values()
            cells = [cell(rows[model, task]) for task in TASKS]
            lines.append([model, f"{parameters:,.0f}", *cells, *map(percent, far)])
        return (
            "All with one recipe: a label at every step, Adam at 0.003, batches of 64, the disjoint "
            f"split, {budget.few_seeds} seeds, up to {budget.few_epochs} epochs, ended once the "
            f"held-out accuracy had been 100% for {HOLD}. Width 32 and 2 layers; `paper` is 64 wide "
            "and has 3, `rotor` 32 channels and one layer, or two for parenthesis: these are their "
            "architectures, not their recipes. An SSM is a diagonal selective state-space model, as "
            "Mamba's is, with eigenvalues in the range named. One learning rate for all, not tuned: "
            f"what failed here may learn elsewhere. {CELL} The last columns are the accuracy of all "
            "seeds beyond the trained length of 16.\n\n" + markdown(headings, lines)
        )
