"""Variants of the printed model down, tasks across: the paper's Tables 3 and 4, and its future work."""

import statistics
from collections.abc import Sequence
from typing import Any, ClassVar

from csprop_lab.study.job import Job, csp
from csprop_lab.study.length import STATE
from csprop_lab.study.measure import Row
from csprop_lab.study.table import (
    HOLD,
    PAPER_TASKS,
    Budget,
    Label,
    Rows,
    Table,
    column,
    reached,
    score,
    values,
)
from csprop_lab.study.texts import markdown, words

Variants = dict[str, dict[str, Any]]
"""By name, the options that each changes."""
Quotes = dict[str, tuple[str, ...]]
"""By variant, the paper's numbers for each of its tasks, in the order of PAPER_TASKS."""


class Grid(Table):
    """Variants of preset `paper`, trained with a smaller budget than in the main table."""

    variants: ClassVar[Variants]
    quotes: ClassVar[Quotes] = {}

    def jobs(self, budget: Budget) -> dict[Label, list[Job]]:
        shared = {"split": "disjoint", "samples": budget.few_samples, "epochs": budget.few_epochs}
        shared |= {"hold": HOLD}
        return {
            (variant, task): [
                csp(task, "paper", seed, **shared | changes) for seed in range(budget.few_seeds)
            ]
            for variant, changes in self.variants.items()
            for task in PAPER_TASKS
        }

    def table(self, rows: Rows) -> str:
        """Return the table in Markdown; with quotes, each task has a column for the paper's numbers."""
        headings = ["variant", "parameters"]
        for task in PAPER_TASKS:
            headings += [column(task), "the paper"] if self.quotes else [column(task)]
        lines = []
        for variant in self.variants:
            parameters = values(rows[variant, PAPER_TASKS[0]], "parameters")
            line = [variant, f"{max(parameters):,.0f}"]
            quotes = self.quotes.get(variant, ("",) * len(PAPER_TASKS))
            for task, quote in zip(PAPER_TASKS, quotes, strict=True):
                line += [cell(rows[variant, task])] + ([quote] if self.quotes else [])
            lines.append(line)
        return markdown(headings, lines)

    def text(self, rows: Rows, budget: Budget) -> str:
        trained = words(
            "budget", seeds=budget.few_seeds, epochs=budget.few_epochs, hold=HOLD, cell=words("cell")
        )
        return words(self.name, budget=trained, table=self.table(rows))


def cell(rows: Sequence[Row]) -> str:
    """Return the scores of the seeds on a task, as the section `cell` of texts.md explains it."""
    firsts = reached(rows)
    at = f", epoch {statistics.median(firsts):g}" if firsts else ""
    return f"{score(rows)}; {len(firsts)} of {len(rows)}{at}"


BARE = {"activation": "none", "skip": False, "norm": "none"}
PARTS = {
    "Base": BARE,
    "+SiLU": BARE | {"activation": "boundary"},
    "+Skip": BARE | {"activation": "boundary", "skip": True},
    "+Norm": {},
}


class Structure(Grid):
    """The paper's Table 4, the ablations that its text names, and the choices that it leaves open."""

    name, title = "structure", "Structure"
    variants: ClassVar[Variants] = {
        **{f"without rotation, {part}": {"rotate": "none"} | off for part, off in PARTS.items()},
        **{f"with rotation, {part}": off for part, off in PARTS.items()},
        "SiLU at every step, no norm": {"activation": "step", "norm": "none"},
        "LayerNorm": {"norm": "layer"},
        "no skip": {"skip": False},
        "an angle for each channel": {"rotation": "per_channel"},
        "decay exp": {"decay": "exp"},
        "decay unit": {"decay": "unit"},
        "rotation of the state": {"rotate": "state"},
        "rotation of the state, an angle for each channel, decay unit, learned start": STATE,
    }
    quotes: ClassVar[Quotes] = {
        "without rotation, Base": ("50%", "33%", "0.0"),
        "without rotation, +SiLU": ("55%", "33%", "0.0"),
        "without rotation, +Skip": ("52%", "34%", "0.0"),
        "without rotation, +Norm": ("50%", "33%", "0.0"),
        "with rotation, Base": ("100%", "67%", "0.0"),
        "with rotation, +SiLU": ("85%", "67%", "0.2"),
        "with rotation, +Skip": ("94%", "78%", "0.5"),
        "with rotation, +Norm": ("100%", "100%", "1.0"),
        "LayerNorm": ("", "", "0.0"),
    }


class Focal(Grid):
    """The paper's Table 3: focal loss and cross-entropy, with each of its two decoders."""

    name, title = "focal", "Focal loss"
    variants: ClassVar[Variants] = {
        f"{decoder}, {loss}": {"decoder": decoder, "loss": loss}
        for decoder in ("phase", "cos_sin")
        for loss in ("cross_entropy", "focal")
    }
    quotes: ClassVar[Quotes] = {
        "phase, cross_entropy": ("100%", "100%; text 67%, then 100%", "1.0; text 0.0"),
        "phase, focal": ("~50%", "100%", "1.0"),
    }


class Decoders(Grid):
    """The paper's future work: a complex decoder, and low-rank coupling between the layers."""

    name, title = "decoders", "Decoders and coupling"
    variants: ClassVar[Variants] = {
        "decoder cos_sin (printed)": {},
        "decoder phase": {"decoder": "phase"},
        "decoder complex": {"decoder": "complex"},
        "decoder linear": {"decoder": "linear"},
        "coupling of rank 4, shared": {"coupling_rank": 4},
        "coupling of rank 4, per layer": {"coupling_rank": 4, "coupling": "per_layer"},
    }
