"""The paper's Table 4, the ablations that its text names, and the choices that it leaves open."""

from typing import ClassVar

from csprop_lab.study.grid import Grid, Quotes, Variants
from csprop_lab.study.length import STATE
from csprop_lab.study.table import Budget, Rows

BARE = {"activation": "none", "skip": False, "norm": "none"}
PARTS = {
    "Base": BARE,
    "+SiLU": BARE | {"activation": "boundary"},
    "+Skip": BARE | {"activation": "boundary", "skip": True},
    "+Norm": {},
}
QUOTES: Quotes = {
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


class Structure(Grid):
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
    quotes: ClassVar[Quotes] = QUOTES

    def text(self, rows: Rows, budget: Budget) -> str:
        return (
            "The first eight rows are Table 4, where each part is added to the ones before it; the "
            'next three are described in its text ("consistently underperforms", F1 0.0, "a noticeable '
            'drop"); the others change one choice that the paper leaves open. '
            f"{self.budget_text(budget)}\n\n{self.grid(rows)}"
        )
