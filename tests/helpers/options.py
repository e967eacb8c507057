"""The models that can be written: every cell and every stack of cells, drawn at random."""

from dataclasses import fields, replace
from typing import Any, get_args, get_type_hints

import torch
from hypothesis import strategies as st
from torch import Generator

from csprop import CSP, Cell, CSPConfig
from csprop.cells import BUILT_IN

KINDS = {kind: cls for kind, cls in BUILT_IN.items() if kind not in ("resonator", "tracker")}
"""The kinds of layer that a model can have: a resonator reads features alone, and a tracker, which
differs in training and has no options, has tests of its own."""
DECODERS: tuple[str, ...] = get_args(get_type_hints(CSPConfig)["decoder"])
WIDTHS = [2, 4, 6]
SIZES = {"order": [2, 3, 4], "coupling_rank": [0, 2], "places": [0, 1, 2], "maps": [0, 1, 3]}
SIZES |= {"parts": [0, 64]}
"""Values of the options that are whole numbers; `places` divides every width."""


def choices(kind: str) -> dict[str, list[Any]]:
    """Return every option of a kind with its values."""
    hints = get_type_hints(KINDS[kind])
    values: dict[str, list[Any]] = {}
    for field in fields(KINDS[kind]):  # pyright: ignore[reportArgumentType]
        hint = hints[field.name]
        listed = [True, False] if hint is bool else list(get_args(hint))
        values[field.name] = listed or SIZES[field.name]
    return values


def vary() -> dict[str, Cell]:
    """Return the cell of each kind with its defaults, and with each single option changed."""
    cells: dict[str, Cell] = {}
    for kind, cls in KINDS.items():
        cells[kind] = default = cls()
        for name, values in choices(kind).items():
            for value in values:
                if value != getattr(default, name):
                    rank = {"coupling_rank": 2} if name == "coupling" else {}
                    cells[f"{kind} {name}={value}"] = replace(default, **rank | {name: value})  # pyright: ignore[reportArgumentType]
    return cells


@st.composite
def cells(draw: st.DrawFn, order: int | None = None, coupled: bool = False) -> Cell:
    """Draw any cell: of this order, if one is given, and with a coupling only if it is asked for.

    Without a norm the printed decay lets rounding errors grow without bound, and is not drawn.
    """
    kind = draw(st.sampled_from(list(KINDS)))
    options = {name: draw(st.sampled_from(values)) for name, values in choices(kind).items()}
    if "order" in options and order is not None:
        options["order"] = order
    if kind == "paper":
        options["coupling_rank"] *= coupled
        options["coupling"] = options["coupling"] if options["coupling_rank"] else "shared"
        growing = options["norm"] == "none" and options["decay"] == "softplus"
        options["decay"] = "exp" if growing else options["decay"]
    return KINDS[kind](**options)


@st.composite
def configs(
    draw: st.DrawFn, max_depth: int = 3, vocab_size: int = 3, order: int | None = None
) -> CSPConfig:
    """Draw any model: layers of one cell, of this order if given, or a mixed stack of order 2."""
    depth, width = draw(st.integers(1, max_depth)), draw(st.sampled_from(WIDTHS))
    sizes: dict[str, Any] = {"vocab_size": vocab_size, "num_classes": 4, "width": width}
    if draw(st.booleans()):
        stack = draw(st.lists(cells(order=2), min_size=depth, max_size=depth))
        return CSPConfig(**sizes, cells=stack, decoder=draw(st.sampled_from(DECODERS)))  # pyright: ignore[reportArgumentType]
    cell = draw(cells(order, coupled=depth > 1))
    decoder: Any = draw(st.sampled_from(DECODERS if cell.order == 2 else ("linear", "cos_sin")))
    return CSPConfig(**sizes, depth=depth, cell=cell, decoder=decoder)


def config(cell: Cell, depth: int = 2, **changes: Any) -> CSPConfig:
    """Return a small model of one cell."""
    decoder = "linear" if cell.order > 2 else "cos_sin"
    sizes: dict[str, Any] = {"vocab_size": 3, "num_classes": 4, "width": 6, "decoder": decoder}
    return CSPConfig(**sizes | {"depth": depth, "cell": cell} | changes)


def draw_parts(model: CSP, generator: Generator) -> None:
    """Draw the k of channels of rotors whose angles are whole multiples of 2π/k; some are 0."""
    for name, parts in model.named_buffers():
        if name.endswith("parts"):
            parts.copy_(torch.randint(6, parts.shape, generator=generator))


@torch.no_grad()
def model(config: CSPConfig, seed: int = 0, noise: float = 0.2) -> CSP:
    """Return a model with every weight away from its start, where a norm is 1 and a coupling 0.

    A router that reads tokens still chooses the map of each token.
    """
    generator = Generator().manual_seed(seed)
    made = CSP(config, generator)
    for parameter in made.parameters():
        parameter.add_(noise * torch.randn(parameter.shape, generator=generator))
    draw_parts(made, generator)
    for router in made.routers:
        if router.by_token:
            router.read_tokens(made.embedding)
    return made
