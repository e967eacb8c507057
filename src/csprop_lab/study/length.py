"""Accuracy beyond the trained length: printed model, rotated state, and our presets, also locked."""

import statistics
from collections.abc import Sequence
from typing import Any

from csprop.tasks import get
from csprop.training.scores import percent
from csprop_lab.study.job import Job, csp
from csprop_lab.study.main import Main, lengths, lengths_of
from csprop_lab.study.measure import SAMPLING, Row
from csprop_lab.study.table import HOLD, TASKS, Budget, Figured, Label, Rows
from csprop_lab.study.texts import markdown, words

STATE: dict[str, Any] = {"rotate": "state", "rotation": "per_channel", "decay": "unit", "h0": "learned"}
"""The printed model with the state rotated in place of the input."""
# Okabe and Ito's colours, which people see apart whatever their eyes. Later lines cover earlier ones.
STYLES = {
    "paper": ("#E69F00", ":"),
    "state": ("#CC79A7", "--"),
    "rotor": ("#D55E00", "-"),
    "locked rotor": ("#0072B2", "-"),
    "locked counter": ("#56B4E9", "-"),
    "counter": ("#000000", "--"),
}


class Length(Figured):
    name, title = "length", "Length"

    def jobs(self, budget: Budget) -> dict[Label, list[Job]]:
        main, jobs = Main().jobs(budget), {}
        options = STATE | {"split": "disjoint", "hold": HOLD, "epochs": 4 * budget.few_epochs}
        options |= {"samples": budget.few_samples}
        for task in TASKS:
            jobs[task, "paper"] = main[task, "paper", "disjoint"]
            jobs[task, "state"] = [
                csp(task, "paper", seed, test_lengths=lengths_of(task, budget), **options)
                for seed in range(budget.few_seeds)
            ]
            jobs[task, "rotor"] = main[task, "rotor", "disjoint"]
            suits = get(task).preset
            jobs[task, suits] = jobs[task, f"locked {suits}"] = main[task, suits, "disjoint"]
        return jobs

    def text(self, rows: Rows, budget: Budget) -> str:
        headings = ["task", "model", *(f"{length:,}" for length in lengths(budget))]
        lines = [
            [task, model, *map(percent, accuracies(seeds, model).values())]
            for (task, model), seeds in rows.items()
        ]
        return words(
            "length", most=SAMPLING.most, longest=f"{SAMPLING.tokens // SAMPLING.most:,}",
            fewest=SAMPLING.fewest, seeds=budget.seeds, few=budget.few_seeds,
            epochs=4 * budget.few_epochs, table=markdown(headings, lines),
        )  # fmt: skip

    def figure(self, rows: Rows) -> Any:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(11, 3.3), layout="constrained")
        axes = figure.subplots(1, len(TASKS), sharey=True)
        for axis, task in zip(axes, TASKS, strict=True):
            for model, (colour, line) in STYLES.items():
                if (task, model) not in rows:
                    continue
                by_length = accuracies(rows[task, model], model)
                width = 2.5 if model.startswith("locked") else 1.2
                axis.plot(
                    *zip(*by_length.items(), strict=True), line, color=colour, lw=width, label=model
                )
            axis.set_xscale("log", base=2)
            axis.set_title(task)
            axis.set_xlabel("length")
            axis.axvline(16, color="0.8", lw=0.8)
        axes[0].set_ylabel("accuracy")
        shown = {line.get_label(): line for axis in axes for line in axis.get_lines()}
        named = {model: shown[model] for model in STYLES}
        figure.legend(named.values(), named.keys(), loc="outside upper center", ncols=len(named))
        return figure


def accuracies(rows: Sequence[Row], model: str) -> dict[int, float]:
    """The mean over the seeds, by length; a seed that diverged or was not locked counts as 0."""

    def of(row: Row, length: int) -> float:
        where = row.get("locked", {}) if model.startswith("locked") else row
        return where.get("lengths", {}).get(str(length), 0.0)

    tested = rows[0]["job"]["test_lengths"]
    return {length: statistics.fmean(of(row, length) for row in rows) for length in tested}
