"""csprop's layer of features beside other recurrent layers, in networks of the same size."""

import math
import statistics
from collections.abc import Sequence
from typing import get_args

from csprop.training.scores import percent
from csprop_lab.signals.networks import NetworkKind
from csprop_lab.signals.prose import entropy
from csprop_lab.signals.sequences import (
    BATCHES,
    CHANNELS,
    FEATURES,
    HELD_OUT_STEPS,
    TEXT_STEPS,
    DataName,
)
from csprop_lab.study.job import LayerJob
from csprop_lab.study.measure import Row
from csprop_lab.study.table import QUICK, Budget, Label, Rows, Table, markdown

KINDS: dict[NetworkKind, str] = {
    "csprop": "csprop.CSPLayer",
    "csprop, two blocks": "csprop.CSPLayer, two blocks",
    "LSTM": "nn.LSTM",
    "GRU": "nn.GRU",
    "SSM [0, 1]": "selective SSM",
}
"""The networks, and what they are called."""
STEPS, FEW_STEPS = 600, 5
RATES: dict[DataName, tuple[float, ...]] = {
    "digits, levels": (0.001, 0.003, 0.01),
    "digits, numbers": (0.001, 0.003, 0.01),
    "sentences": (0.003, 0.01),
}
"""Learning rates, the same for all networks: on digits most did best at the lower end of two."""
BITS = "sentences"
"""The data set whose score is bits, of which fewer are better; that of the others is an accuracy."""


class Layers(Table):
    name, title = "layers", "A layer of features"

    def jobs(self, budget: Budget) -> dict[Label, list[LayerJob]]:
        return {
            (data, KINDS[kind], f"{lr:g}"): [
                job(data, kind, lr, FEW_STEPS if budget is QUICK else STEPS, seed)
                for seed in range(budget.few_seeds)
            ]
            for data in get_args(DataName)
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
            test = sorted(scores(seeds, "test"), reverse=data == BITS)
            ends = f"{shown(data, test[0])} to {shown(data, test[-1])}"
            sizes = {row["result"]["parameters"] for row in seeds if "result" in row}
            lines.append(
                [
                    f"{data}, {'bits a character' if data == BITS else 'accuracy'}",
                    name,
                    " or ".join(f"{size:,}" for size in sizes),
                    lr,
                    shown(data, statistics.fmean(scores(seeds, "validation"))),
                    f"{shown(data, statistics.fmean(test))} ({ends})",
                ]
            )
        return markdown(headings, lines)

    def text(self, rows: Rows, budget: Budget) -> str:
        some = [seeds[0]["job"] for seeds in rows.values()]
        steps = some[0]["steps"]
        return (
            "The paper has no such table. A network is one recurrent layer between an embedding of "
            "its inputs and a linear map to classes. The layer is `csprop.CSPLayer` (one block of "
            f"resonators, {some[0]['features']} features, {CHANNELS['csprop']} channels; or two, with "
            "half as many channels each), torch's LSTM or GRU, or a diagonal selective state-space "
            "layer: like Mamba's, but without its convolution, and with two real states a channel, of "
            "eigenvalues "
            "in [0, 1]; their features are such that all networks have about as many parameters. "
            "csprop's and the state-space layer bring norms and a residual along, torch's have none. "
            "All start from the weights that are usual for them: those of csprop's layer spread the "
            "memories of its channels over many lengths, those of the others do not. **Digits**: the "
            "64 pixels of a picture, one after the other, each as one of 17 levels, which are "
            "embedded (`digits, levels`), or as a number (`digits, numbers`); the answer is the "
            "digit, after the last pixel, and the score is the accuracy. The pictures are those of "
            "scikit-learn, drawn once into three fifths to learn from, a fifth for validation and a "
            "fifth as test. **Sentences**: the characters of a text in made-up words, drawn from a source "
            f"of known entropy, {entropy():.3f} bits a character, which no model can beat; the score is "
            f"the bits that a character takes, in rows of {HELD_OUT_STEPS} that start without a past. "
            f"The first eight tenths are learned from, in rows of {TEXT_STEPS}; the "
            f"next tenth is validation, the last is test. Every network takes {steps:,} steps of Adam "
            f"with gradients clipped at norm 1, on batches of {BATCHES['digits, levels']} pictures or "
            f"{BATCHES[BITS]} rows of text, which are the same for all; {budget.few_seeds} seeds "
            "draw weights and batches. Every network was trained with the same learning rates, two "
            "on text and three on digits. Shown is the one with the best mean of the seeds on "
            "validation; test has no part in the choice. The parts of csprop's layer were chosen "
            "earlier, by trials on digits and on text of the same kind (docs/notes/layer.md), those of "
            "the others were not; and so many steps show how quickly a network learns, not what it "
            f"ends with.\n\n{self.table(rows)}"
        )


def job(data: DataName, kind: NetworkKind, lr: float, steps: int, seed: int) -> LayerJob:
    """One run."""
    return LayerJob(
        data=data,
        kind=kind,
        features=FEATURES[data][kind],
        width=CHANNELS.get(kind, 0),
        lr=lr,
        steps=steps,
        batch_size=BATCHES[data],
        seed=seed,
    )


def scores(rows: Sequence[Row], part: str) -> list[float]:
    """The score of each seed; the worst that there is for one that diverged."""
    worst = math.inf if rows[0]["job"]["data"] == BITS else 0.0
    return [row["result"][part] if "result" in row else worst for row in rows]


def chosen(rows: Rows, data: str, name: str) -> str:
    """The learning rate whose mean over the seeds is the best on validation."""
    means = {
        lr: statistics.fmean(scores(seeds, "validation"))
        for (where, which, lr), seeds in rows.items()
        if (where, which) == (data, name)
    }
    return (min if data == BITS else max)(means, key=lambda lr: means[lr])


def shown(data: str, score: float) -> str:
    """A score as text."""
    return f"{score:.3f}" if data == BITS else percent(score)
