"""The configuration of a model: its sizes, and the cell of each layer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from csprop.cells.options import Cell, Paper, Resonator, Router
from csprop.errors import InputError
from csprop.fields import check_ranges, check_types, find_changes


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """The layers of a model. The defaults are as printed."""

    width: int = 64
    """Channels of a layer, the paper's d."""

    depth: int = 3
    """Layers, the paper's L. With `cells` it is their number."""

    cell: Cell = field(default=Paper(), metadata={"flag": False})
    """The kind of all layers, with its options."""

    cells: Sequence[Cell] = field(default=(), metadata={"flag": False})
    """The kind of each layer, where they differ: `cells=[Counter(), Switch()]`."""

    decoder: Literal["cos_sin", "phase", "complex", "linear"] = "cos_sin"
    """Read the classes from [cos φ, sin φ] (printed), where φ is the phase of the state; from φ itself;
    by a complex linear map with a real projection; or from the state itself."""

    def __post_init__(self) -> None:
        self._check_cells()
        check_types(self)
        check_ranges(self, width=(1, 65_536), depth=(1, 1024))
        fits = {1: ("linear",), 2: ("cos_sin", "phase", "complex", "linear")}
        decoders = fits.get(self.order, ("linear", "cos_sin"))
        if self.decoder not in decoders:
            raise InputError(
                f"it does not read states of order {self.order}: choose from {', '.join(decoders)}",
                "decoder",
                self.decoder,
            )
        for cell in self.layers:
            if isinstance(cell, Router) and cell.places and self.width % cell.places:
                complaint = f"does not divide the width, {self.width}, into groups: choose a divisor"
                raise InputError(complaint, "places", cell.places)
        if not self.coupling_rank <= self.width or (self.coupling_rank and self.depth < 2):
            raise InputError(
                "it joins neighbouring layers: choose a depth of 2 or more, and a rank of at most "
                f"{self.width}, the width",
                "coupling_rank",
                self.coupling_rank,
            )

    def _check_cells(self) -> None:
        if not isinstance(self.cells, tuple | list):
            raise InputError("write a list; one cell for all layers is `cell`", "cells", self.cells)
        cells = tuple(self.cells) or (self.cell,)
        for cell in cells:
            if not isinstance(cell, Cell):
                raise InputError(f"{cell!r} is not a cell: write one such as csprop.Paper()")
            if isinstance(cell, Resonator):
                raise InputError("a Resonator reads features, not tokens: use csprop.CSPLayer")
        if len({cell.order for cell in cells}) > 1:
            raise InputError("the cells of one model must have states of the same order")
        if self.cells:
            object.__setattr__(self, "depth", len(cells))
        if len(set(cells)) > 1 and any(getattr(cell, "coupling_rank", 0) for cell in cells):
            raise InputError("coupling_rank joins layers of one kind: leave it out of a mixed stack")
        object.__setattr__(self, "cell", cells[0])
        object.__setattr__(self, "cells", cells if len(set(cells)) > 1 else ())

    @property
    def layers(self) -> tuple[Cell, ...]:
        """The cell of each layer, first layer first."""
        return tuple(self.cells) or (self.cell,) * self.depth

    @property
    def order(self) -> int:
        """Real numbers in a channel's state."""
        return self.cell.order

    @property
    def coupling_rank(self) -> int:
        """Rank of the coupling between neighbouring layers; 0 for none."""
        return self.cell.coupling_rank if isinstance(self.cell, Paper) else 0

    @property
    def couplings(self) -> int:
        """The number of couplings: one for all pairs of neighbouring layers, or one for each."""
        if not isinstance(self.cell, Paper) or not self.cell.coupling_rank:
            return 0
        return 1 if self.cell.coupling == "shared" else self.depth - 1


@dataclass(frozen=True, kw_only=True)
class CSPConfig(Architecture):
    """A whole model: its layers, and the numbers of tokens and classes."""

    vocab_size: int
    """The number of tokens."""

    num_classes: int
    """The number of classes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, vocab_size=(1, 10**6), num_classes=(2, 10**6))

    def to_json(self) -> dict[str, Any]:
        """Return the sizes, the decoder, and one entry for each layer."""
        return {
            "vocab_size": self.vocab_size,
            "num_classes": self.num_classes,
            "width": self.width,
            "depth": self.depth,
            "decoder": self.decoder,
            "cells": [cell.to_json() for cell in self.layers],
        }

    def to_digest(self) -> dict[str, Any]:
        """Return what differs from the defaults: adding an option changes no digest."""
        sizes = {name: value for name, value in find_changes(self).items() if name[:4] != "cell"}
        cells = [{"kind": cell.kind, **find_changes(cell)} for cell in self.layers]
        return sizes | {"cells": cells}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "CSPConfig":
        """Return the configuration that `to_json` described; refuse unknown and missing fields."""
        known = ("vocab_size", "num_classes", "width", "depth", "decoder", "cells")
        for name in (*values, *known):
            if name not in known:
                raise InputError(f"{name!r} is not an option of a model: it has {', '.join(known)}")
            if name not in values:
                raise InputError(f"a model needs `{name}`")
        options = dict(values)
        cells = options.pop("cells")
        if not isinstance(cells, list) or not all(isinstance(each, dict) for each in cells):
            raise InputError("a model needs `cells`, a list with one entry for each layer")
        if type(options["depth"]) is not int or len(cells) != options["depth"]:
            raise InputError(f"`cells` has {len(cells)} entries, but depth is {options['depth']}")
        return cls(**options, cells=[Cell.from_json(each) for each in cells])
