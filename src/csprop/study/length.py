"""Beyond the trained length: as printed, with the state rotated, as a rotor, and as a locked rotor."""

import statistics
from collections.abc import Sequence
from typing import Any

from csprop.study.job import Job, csp
from csprop.study.main import Main, lengths
from csprop.study.measure import SAMPLING, Row
from csprop.study.table import HOLD, TASKS, Budget, Figured, Label, Rows, markdown, percent

STATE: dict[str, Any] = {"rotate": "state", "rotation": "per_channel", "decay": "unit", "h0": "learned"}
# Okabe and Ito's colours, which people see apart whatever their eyes.
STYLES = {
    "paper": ("#E69F00", ":"),
    "state": ("#CC79A7", "--"),
    "rotor": ("#D55E00", "-"),
    "locked rotor": ("#0072B2", "-"),
}


class Length(Figured):
    name, title = "length", "Length"

    def jobs(self, budget: Budget) -> dict[Label, list[Job]]:
        every, found = Main().jobs(budget), {}
        options = STATE | {"split": "disjoint", "hold": HOLD, "epochs": 4 * budget.few_epochs}
        options |= {"samples": budget.few_samples}
        for task in TASKS:
            found[task, "paper"] = every[task, "paper", "disjoint"]
            found[task, "state"] = [
                csp(task, "paper", seed, test_lengths=lengths(task, budget), **options)
                for seed in range(budget.few_seeds)
            ]
            found[task, "rotor"] = every[task, "rotor", "disjoint"]
            if task != "parenthesis":
                found[task, "locked rotor"] = found[task, "rotor"]
        return found

    def text(self, rows: Rows, budget: Budget) -> str:
        headings = ["task", "model", *(f"{length:,}" for length in lengths("parity", budget))]
        lines = [
            [task, model, *(percent(value) for value in accuracies(found, model).values())]
            for (task, model), found in rows.items()
        ]
        return (
            "Trained at 16: the accuracy at other lengths (of parenthesis 18 in place of 17), over "
            f"the sequences of all seeds, {SAMPLING.most} a seed up to length "
            f"{SAMPLING.tokens // SAMPLING.most:,} and fewer beyond, {SAMPLING.fewest} at the longest; "
            f"at 16 some of them are also in the training data. `paper` and `rotor` are rows of the main table, {budget.seeds} seeds; `state` is "
            "the printed model with the state rotated in place of the input, an angle for each "
            f"channel, α = 1 and a learned start, {budget.few_seeds} seeds, up to "
            f"{4 * budget.few_epochs} epochs. An accuracy near 0 is a drift that turned all answers "
            "into wrong ones.\n\n" + markdown(headings, lines)
        )

    def figure(self, rows: Rows) -> Any:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(11, 3.3), layout="constrained")
        axes = figure.subplots(1, len(TASKS), sharey=True)
        for axis, task in zip(axes, TASKS, strict=True):
            for model, (colour, line) in STYLES.items():
                if (task, model) not in rows:
                    continue
                by_length = accuracies(rows[task, model], model)
                width = 2.5 if model == "locked rotor" else 1.2
                axis.plot(
                    *zip(*by_length.items(), strict=True), line, color=colour, lw=width, label=model
                )
            axis.set_xscale("log", base=2)
            axis.set_title(task)
            axis.set_xlabel("length")
            axis.axvline(16, color="0.8", lw=0.8)
        axes[0].set_ylabel("accuracy")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
        return figure


def accuracies(rows: Sequence[Row], model: str) -> dict[int, float]:
    """Over all seeds, by length; a seed that diverged or was not locked has nothing right."""

    def of(row: Row, length: int) -> float:
        where = row.get("locked", {}) if model == "locked rotor" else row
        return where.get("lengths", {}).get(str(length), 0.0)

    tested = rows[0]["job"]["test_lengths"]
    return {length: statistics.fmean(of(row, length) for row in rows) for length in tested}
