"""The paper's Table 3: focal loss and cross-entropy, with each of its two decoders."""

from typing import ClassVar

from csprop_lab.study.grid import Grid, Quotes, Variants
from csprop_lab.study.table import Budget, Rows


class Focal(Grid):
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

    def text(self, rows: Rows, budget: Budget) -> str:
        return (
            "Table 3 compares the losses with the `phase` decoder; the text beside it gives other "
            f"numbers than the table. {self.budget_text(budget)}\n\n{self.grid(rows)}"
        )
