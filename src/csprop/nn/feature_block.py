"""One layer of features: a block of the model, or resonators, between two projections."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int64
from torch import Generator, Tensor, nn

from csprop.cells.block import Block, linear
from csprop.cells.options import BUILT_IN, Cell, Shape
from csprop.cells.resonator import ResonatorBlock
from csprop.cells.router import RouterBlock
from csprop.errors import InputError
from csprop.ops.checks import check_tensor
from csprop.ops.scan import wide

LayerKind = Literal["resonator", "tracker", "rotor", "router", "counter", "switch", "paper"]
MAPS = 16
"""Default number of maps of a router."""
SHARP, MIXED = 0.15, 0.25
"""The scale of temperatures, which lets maps learn as fast as everything else; and the temperature
below which a router no longer mixes maps (docs/notes/layer.md)."""


class CSPBlock(nn.Module):
    """One residual layer: x + W h, where the input of the recurrence is a projection of norm(x).

    Args:
        features: size of the feature vector at each step, for input and output.
        width: the complex channels of the recurrence; as many as features by default.
        kind: a kind of cell, or a cell such as `csprop.Rotor(order=3)`; see `csprop.CSPLayer`.
        depth: the number of blocks in the stack; the initialisation of rotors depends on it.
        dropout: the probability that a number of W h is dropped while training.
        generator: draws the parameters; by default, torch's global generator.
        options: options of the cell of this kind, such as `order=3` of a rotor.

    Raises:
        InputError: a value is out of range, or options contradict each other.
    """

    def __init__(
        self,
        features: int,
        width: int | None = None,
        kind: LayerKind | Cell = "resonator",
        *,
        depth: int = 1,
        dropout: float = 0.0,
        generator: Generator | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        width = features if width is None else width
        check_sizes(features=features, width=width)
        check_dropout(dropout)
        generator = torch.default_generator if generator is None else generator
        self.features, self.width, self.kind = features, width, kind
        self.norm = nn.LayerNorm(features)
        self.cell = _cell(kind, width, depth, generator, options)
        self.temperature = 1.0
        self.inputs, outputs = self.cell.order, self.cell.order
        if isinstance(self.cell, ResonatorBlock):
            self.inputs, outputs = self.cell.inputs, self.cell.outputs
        self.enter = linear(features, self.inputs * width, generator)
        self.leave = linear(outputs * width, features, generator)
        self.dropout = nn.Dropout(dropout)
        if isinstance(self.cell, ResonatorBlock):
            self.cell.spread(self.enter)

    def forward(
        self,
        x: Float[Tensor, "*E F"],
        state: Float[Tensor, "B M D"] | None = None,
        reset: Bool[Tensor, "B T"] | None = None,
        *,
        index: Int64[Tensor, "B T"] | None = None,
        onto: Float[Tensor, "B T F"] | None = None,
    ) -> tuple[Float[Tensor, "B T F"], Float[Tensor, "B M D"]]:
        """Return the features after this layer, and the state to carry on from; see `CSPLayer`.

        With an index, x is a table of features (E, F), and the index has the row for each step;
        resonators compute their entries once for each row. W h is added to x, or to `onto`.
        """
        device, sizes = self.norm.weight.device, ("batch", "time") if index is None else ("rows",)
        check_tensor("x", x, "floating-point", (*sizes, self.features), device)
        if index is not None:
            check_tensor("index", index, "int64", ("batch", "time"), device)
            onto = look_up(index, x) if onto is None else onto
        batch = (x if index is None else index).shape[0]
        state = self.initial_state(batch) if state is None else state
        if index is not None and isinstance(self.cell, ResonatorBlock):
            h, last = self.cell(self._entries(x), state, reset, index)
        else:
            steps = x if index is None else look_up(index, x)
            h, last = self.cell(self._entries(steps), state, reset)
        return (x if onto is None else onto) + self._leave(h), last

    @property
    def temperature(self) -> float:
        """The softness of the maps of a router while training: see `CSPLayer.temperature`."""
        return self._temperature

    @temperature.setter
    def temperature(self, value: float) -> None:
        if not (isinstance(value, int | float) and 1e-3 <= value <= 1e3):
            raise InputError("write a number from 0.001 to 1000", "temperature", value)
        self._temperature = value
        if isinstance(self.cell, RouterBlock):
            self.cell.temperature, self.cell.mixes = SHARP * value, value > MIXED

    def step(
        self,
        x: Float[Tensor, "B F"],
        state: Float[Tensor, "B M D"],
        settle: Callable[[Tensor], Tensor] = lambda h: h,
    ) -> tuple[Float[Tensor, "B F"], Float[Tensor, "B M D"]]:
        """Take one step in torch operations; `settle` replaces the new state."""
        entries = self._entries(x)
        if isinstance(self.cell, ResonatorBlock):
            h, last = self.cell.advance(entries, state, settle)
        else:
            z = entries[:, None]
            if isinstance(self.cell, RouterBlock) and self.training:  # its maps are soft then
                last = self.cell.recur(self.cell.transition(z), state, None, None)[1]
            else:
                last = self.cell.advance(z, state)
            last, before = settle(last), state[:, None] if self.cell.recalls else None
            h = self.cell.finish(last[:, None], z, before)[:, 0]
        return x + self._leave(h), last

    def initial_state(self, batch: int = 1) -> Float[Tensor, "B M D"]:
        """Return the state before the first step, for each sequence of a batch."""
        return wide(self.cell.start).expand(batch, -1, -1)

    def _entries(self, x: Float[Tensor, "*E F"]) -> Float[Tensor, "*E K D"]:
        return self.enter(self.norm(x)).unflatten(-1, (self.inputs, self.width))

    def _leave(self, h: Float[Tensor, "*E K D"]) -> Float[Tensor, "*E F"]:
        return self.dropout(self.leave(h.flatten(-2).to(self.leave.weight.dtype)))

    def extra_repr(self) -> str:
        """Return the sizes, for `print`."""
        return f"{self.features}, width={self.width}, kind={self.kind!r}"


def _cell(
    kind: str | Cell, width: int, depth: int, generator: Generator, options: dict[str, Any]
) -> ResonatorBlock | Block:
    if not isinstance(kind, Cell) and kind not in BUILT_IN:
        raise InputError(f"kind={kind!r}: choose from {', '.join(BUILT_IN)}, or give a cell")
    known = fields(BUILT_IN[kind]) if isinstance(kind, str) else ()
    names = {field.name for field in known} - {"coupling", "coupling_rank"}
    if unknown := sorted(set(options) - names):
        meant = {"num_layers": "depth", "hidden_size": "width", "d_state": "width"}.get(unknown[0])
        hint = f": write {meant}" if meant else ""
        raise InputError(f"a layer of the kind {kind} has no option {unknown[0]!r}{hint}")
    if kind == "router":
        options = {"maps": MAPS, **options}
    cell = kind if isinstance(kind, Cell) else BUILT_IN[kind](**options)
    if getattr(cell, "coupling_rank", 0):
        raise InputError("a layer of features has no coupling: leave out coupling_rank")
    return cell.make(Shape(width, depth), generator)


def check_sizes(**sizes: object) -> None:
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InputError("write a whole number, 1 or more", name, size)


def check_dropout(dropout: object) -> None:
    if isinstance(dropout, bool) or not (isinstance(dropout, int | float) and 0 <= dropout <= 1):
        raise InputError("write a probability, from 0 to 1", "dropout", dropout)


def look_up(tokens: Int64[Tensor, "*E"], table: Float[Tensor, "V F"]) -> Float[Tensor, "*E F"]:
    """Return the row of a table for each token; refuse a token outside the table."""
    try:
        return nn.functional.embedding(tokens, table)
    except IndexError:
        raise InputError(
            f"x has a token outside of the vocabulary: write 0 to {len(table) - 1}"
        ) from None
