"""The paper's future work: a complex decoder, and low-rank coupling between the layers."""

from typing import ClassVar

from csprop_lab.study.grid import Grid, Variants
from csprop_lab.study.table import Budget, Rows


class Decoders(Grid):
    name, title = "decoders", "Decoders and coupling"
    variants: ClassVar[Variants] = {
        "decoder cos_sin (printed)": {},
        "decoder phase": {"decoder": "phase"},
        "decoder complex": {"decoder": "complex"},
        "decoder linear": {"decoder": "linear"},
        "coupling of rank 4, shared": {"coupling_rank": 4},
        "coupling of rank 4, per layer": {"coupling_rank": 4, "coupling": "per_layer"},
    }

    def text(self, rows: Rows, budget: Budget) -> str:
        return (
            "The paper proposes both and measures neither; it expects a complex decoder to need half "
            "of the parameters. The norm leaves states of modulus 1, from which `linear` reads the "
            f"same as `cos_sin`. {self.budget_text(budget)}\n\n{self.grid(rows)}"
        )
