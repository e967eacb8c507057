"""csprop's layer of features beside other recurrent layers, in networks of the same size."""

import math
import statistics
from collections.abc import Sequence

from csprop.training.scores import percent
from csprop_lab.signals.networks import NetworkKind
from csprop_lab.signals.prose import entropy
from csprop_lab.signals.sequences import (
    BATCHES,
    CHANNELS,
    CHARACTERS,
    FEATURES,
    HELD_OUT_STEPS,
    TEXT_STEPS,
    DataName,
)
from csprop_lab.study.job import LayerJob
from csprop_lab.study.measure import Row
from csprop_lab.study.table import QUICK, Budget, Label, Rows, Table
from csprop_lab.study.texts import markdown, words

KINDS: dict[NetworkKind, str] = {
    "csprop": "csprop.CSPLayer",
    "csprop, two blocks": "csprop.CSPLayer, two blocks",
    "LSTM": "nn.LSTM",
    "GRU": "nn.GRU",
    "SSM [0, 1]": "selective SSM",
}
"""The networks and their names in tables."""
STEPS, FEW_STEPS = 600, 5
RATES: dict[DataName, tuple[float, ...]] = {
    "digits, levels": (0.001, 0.003, 0.01),
    "digits, numbers": (0.001, 0.003, 0.01),
    "sentences": (0.003, 0.01),
}
"""Learning rates, the same for all networks: on digits most did best at the lower end of two."""


class Layers(Table):
    name, title = "layers", "A layer of features"

    def jobs(self, budget: Budget) -> dict[Label, list[LayerJob]]:
        return {
            (data, KINDS[kind], f"{lr:g}"): [
                job(data, kind, lr, FEW_STEPS if budget is QUICK else STEPS, seed)
                for seed in range(budget.few_seeds)
            ]
            for data in RATES
            for kind in KINDS
            for lr in (RATES[data][:1] if budget is QUICK else RATES[data])
        }

    def table(self, rows: Rows) -> str:
        """The table itself, in Markdown."""
        headings = [
            "data, score", "layer", "parameters", "learning rate", "validation: mean",
            "test: mean (worst to best seed)",
        ]  # fmt: skip
        lines = []
        for data, name in dict.fromkeys(label[:2] for label in rows):
            lr = chosen(rows, data, name)
            seeds = rows[data, name, lr]
            test = sorted(scores(seeds, "test"), reverse=in_bits(data))
            ends = f"{shown(data, test[0])} to {shown(data, test[-1])}"
            sizes = {row["result"]["parameters"] for row in seeds if "result" in row}
            lines.append([
                f"{data}, {'bits a character' if in_bits(data) else 'accuracy'}", name,
                " or ".join(f"{size:,}" for size in sizes), lr,
                shown(data, statistics.fmean(scores(seeds, "validation"))),
                f"{shown(data, statistics.fmean(test))} ({ends})",
            ])  # fmt: skip
        return markdown(headings, lines)

    def text(self, rows: Rows, budget: Budget) -> str:
        some = next(iter(rows.values()))[0]["job"]
        return words(
            "layers", features=some["features"], channels=CHANNELS["csprop"], characters=CHARACTERS,
            entropy=entropy(), held_out=HELD_OUT_STEPS, text_steps=TEXT_STEPS, steps=some["steps"],
            pictures=BATCHES["digits, levels"], rows=BATCHES["sentences"], seeds=budget.few_seeds,
            table=self.table(rows),
        )  # fmt: skip


def job(data: DataName, kind: NetworkKind, lr: float, steps: int, seed: int) -> LayerJob:
    """One run."""
    features, width, batch = FEATURES[data][kind], CHANNELS.get(kind, 0), BATCHES[data]
    return LayerJob(
        data=data, kind=kind, features=features, width=width, lr=lr, steps=steps, batch_size=batch,
        seed=seed,
    )  # fmt: skip


def scores(rows: Sequence[Row], part: str) -> list[float]:
    """The score of each seed; the worst that there is for one that diverged."""
    worst = math.inf if in_bits(rows[0]["job"]["data"]) else 0.0
    return [row["result"][part] if "result" in row else worst for row in rows]


def chosen(rows: Rows, data: str, name: str) -> str:
    """The learning rate whose mean over the seeds is the best on validation."""
    means = {
        lr: statistics.fmean(scores(seeds, "validation"))
        for (where, which, lr), seeds in rows.items()
        if (where, which) == (data, name)
    }
    return (min if in_bits(data) else max)(means, key=lambda lr: means[lr])


def shown(data: str, score: float) -> str:
    """A score as text."""
    return f"{score:.3f}" if in_bits(data) else percent(score)


def in_bits(data: str) -> bool:
    """Return True if a score is in bits a character (fewer are better), False if it is an accuracy."""
    return not data.startswith("digits")
