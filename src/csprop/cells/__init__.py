"""The cells: one kind of layer each. `options.py` lists them; a file for each kind has its block."""

from csprop.cells.options import (
    BUILT_IN,
    Cell,
    Counter,
    Paper,
    Resonator,
    Rotor,
    Router,
    Shape,
    Switch,
    Tracker,
)  # fmt: skip

__all__ = [
    "BUILT_IN", "Cell", "Counter", "Paper", "Resonator", "Rotor", "Router", "Shape", "Switch",
    "Tracker",
]  # fmt: skip
