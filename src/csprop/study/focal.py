"""The paper's Table 3: focal loss and cross-entropy, with each of its two decoders."""

from typing import ClassVar

from csprop.study.grid import Grid, Variants
from csprop.study.table import Budget, Rows

SAID = {
    ("cross_entropy", "parity"): "100%",
    ("cross_entropy", "mod3"): "100%; text 67%, then 100%",
    ("cross_entropy", "parenthesis"): "1.0; text 0.0",
    ("focal", "parity"): "~50%",
    ("focal", "mod3"): "100%",
    ("focal", "parenthesis"): "1.0",
}


class Focal(Grid):
    name, title = "focal", "Focal loss"
    variants: ClassVar[Variants] = {
        f"{decoder}, {loss}": {"decoder": decoder, "loss": loss}
        for decoder in ("phase", "cos_sin")
        for loss in ("cross_entropy", "focal")
    }
    said: ClassVar = {(f"phase, {loss}", task): words for (loss, task), words in SAID.items()}

    def text(self, rows: Rows, budget: Budget) -> str:
        return (
            "Table 3 compares the losses with the `phase` decoder, its text with other numbers than "
            f"the table. {self.budget_text(budget)}\n\n{self.grid(rows)}"
        )
