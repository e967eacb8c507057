"""Built-in cells with all of their options, and models of them: one by one, and as strategies.

The values of an option are read off its type, or listed in `SIZES`. Every combination is valid, apart
from what `CSPConfig` asks of the layers of one model; `models` follows these rules, and nothing else in
the tests repeats them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, get_args, get_type_hints

from hypothesis import strategies as st

from csprop import CSPConfig
from csprop.cells import BUILT_IN, Cell, Counter, Paper, Rotor, Router, Switch

DECODERS: tuple[str, ...] = get_args(get_type_hints(CSPConfig)["decoder"])
SIZES = {"order": [2, 3], "places": [0, 2], "maps": [0, 2], "coupling_rank": [0, 2]}
MIXED = {
    "rotor, router": (Rotor(), Router()),
    "router, rotor": (Router(places=2), Rotor(recall=True)),
    "counter, switch": (Counter(), Switch()),
    "counter, router": (Counter(), Router(maps=3)),
    "paper, switch, counter": (Paper(rotate="state", h0="learned"), Switch(), Counter()),
}


def option_values(kind: type[Cell]) -> dict[str, list[Any]]:
    """Return the values to try for each option of a kind of cell."""
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]  # pyright: ignore[reportArgumentType]
    return {
        name: SIZES[name] if hints[name] is int else list(get_args(hints[name])) or [True, False]
        for name in names
    }


def _vary(cell: Cell) -> Iterator[tuple[str, Cell]]:
    """Yield a cell, and the cells that differ from it in one option."""
    yield cell.kind, cell
    for name, values in option_values(type(cell)).items():
        rank = {"coupling_rank": 2} if name == "coupling" else {}  # without a rank there is none
        for value in values:
            if value != getattr(cell, name):
                changes: dict[str, Any] = rank | {name: value}
                yield f"{cell.kind} {name}={value}", replace(cell, **changes)  # pyright: ignore


CELLS: dict[str, Cell] = {name: each for kind in BUILT_IN.values() for name, each in _vary(kind())}
"""Every cell with its defaults, and with each value of each option."""
STACKS: dict[str, Sequence[Cell]] = {name: (cell, cell) for name, cell in CELLS.items()} | MIXED
"""Two layers of each of `CELLS`, and layers of several kinds."""


def config(
    cells: Sequence[Cell], width: int = 6, vocab_size: int = 3, num_classes: int = 4, **more: Any
) -> CSPConfig:
    """Return a small model; its decoder is one that reads states of any order."""
    options = {"decoder": "linear"} | more
    return CSPConfig(
        vocab_size=vocab_size, num_classes=num_classes, width=width, cells=cells, **options
    )


@st.composite
def cells(draw: st.DrawFn, kinds: Sequence[type[Cell]] = tuple(BUILT_IN.values())) -> Cell:
    """Draw a cell with any of its options."""
    kind = draw(st.sampled_from(kinds))
    options = {name: draw(st.sampled_from(values)) for name, values in option_values(kind).items()}
    if not options.get("coupling_rank"):
        options.pop("coupling", None)
    return kind(**options)


@st.composite
def models(
    draw: st.DrawFn,
    kinds: Sequence[type[Cell]] = tuple(BUILT_IN.values()),
    most_layers: int = 3,
    **sizes: int,
) -> CSPConfig:
    """Draw a small model: layers that are alike, or each with a cell of its own."""
    first = draw(cells(kinds))
    rank = getattr(first, "coupling_rank", 0)
    depth = draw(st.integers(2 if rank else 1, most_layers))
    stack = [first] * depth
    if not rank and first.order == 2 and draw(st.booleans()):
        others = cells(kinds).filter(lambda cell: cell.order == 2 and not _coupled(cell))
        stack = [first, *(draw(others) for _ in range(depth - 1))]
    decoders = DECODERS if first.order == 2 else ("linear", "cos_sin")
    return config(stack, decoder=draw(st.sampled_from(decoders)), **sizes)


def _coupled(cell: Cell) -> bool:
    return bool(getattr(cell, "coupling_rank", 0))


def is_chaotic(model: CSPConfig) -> bool:
    """Return True if rounding errors of a model grow from step to step: α > 1, and no norm."""
    return any(
        isinstance(cell, Paper) and cell.norm == "none" and cell.decay == "softplus"
        for cell in model.layers
    )
