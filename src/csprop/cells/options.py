"""The kinds of layer and their options. A kind is a `Cell`; the module that it makes is its `Block`.

These classes need no torch, so commands that only read a configuration start fast. The block of each
kind, with its equation, is in the file named after it.
"""

from dataclasses import asdict, dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from csprop.errors import InputError
from csprop.fields import check_names, check_ranges, check_types

if TYPE_CHECKING:
    from torch import Generator

    from csprop.cells.block import Block

KINDS: dict[str, type["Cell"]] = {}
"""All kinds of cell that are defined, by the name that JSON has for them."""


class Shape(NamedTuple):
    """The place of a layer in a model."""

    width: int
    depth: int = 1
    """Layers of the model."""
    vocab_size: int = 0
    """Tokens of the model; 0 in a layer of features."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A kind of layer: a frozen, keyword-only dataclass of options. Subclass it to add your own.

    `order` is the number of real planes of a channel's state: 2 for a complex number.
    """

    order = 2
    kind: ClassVar[str]
    """The name of the kind in JSON."""

    def __init_subclass__(cls) -> None:
        builtin = cls.__module__ == __name__
        cls.kind = cls.__name__.lower() if builtin else f"{cls.__module__}:{cls.__qualname__}"
        KINDS[cls.kind] = cls

    def make(self, shape: Shape, generator: "Generator") -> "Block":
        """Return a new block with these options; its parameters are drawn from the generator.

        A cell of your own defines it.
        """
        kind = next((each for each in type(self).__mro__ if each in BUILT_IN.values()), None)
        if kind is None:
            raise NotImplementedError(f"{self.kind} does not define make()")
        module = import_module(f"csprop.cells.{kind.__name__.lower()}")
        return getattr(module, f"{kind.__name__}Block")(self, shape, generator)

    def to_json(self) -> dict[str, Any]:
        """Return the kind and every option."""
        return {"kind": self.kind, **asdict(self)}

    @staticmethod
    def from_json(values: dict[str, Any]) -> "Cell":
        """Return the cell that `to_json` described; an option that is missing has its default."""
        options = dict(values)
        kind = options.pop("kind", None)
        if not isinstance(kind, str) or kind not in KINDS:
            known = ", ".join(BUILT_IN)
            module = str(kind).partition(":")[0]
            hint = f"in Python, import {module} first" if ":" in str(kind) else f"choose from {known}"
            raise InputError(f"there is no cell of the kind {kind!r}: {hint}")
        check_names(KINDS[kind], options)
        lists = {name: tuple(value) for name, value in options.items() if isinstance(value, list)}
        return KINDS[kind](**options | lists)


@dataclass(frozen=True, kw_only=True)
class Paper(Cell):
    """The printed block. The defaults are as printed; the others are the paper's ablations."""

    rotate: Literal["input", "state", "none"] = "input"
    """e^{iθ} multiplies the input (printed), the state, or nothing."""

    rotation: Literal["shared", "per_channel"] = "shared"
    """One angle for all channels of a step (printed), or one for each channel."""

    decay: Literal["softplus", "exp", "unit"] = "softplus"
    """α = softplus δ (printed), e^{−softplus δ}, or 1; γ = softplus δ in each case."""

    gate: Literal["shared", "per_channel"] = "shared"
    """One δ for all channels of a step (printed), or one for each channel."""

    activation: Literal["boundary", "step", "none"] = "boundary"
    """Where SiLU is applied: after the recurrence (printed), inside it at every step, or nowhere."""

    skip: bool = True
    """Add σ(g) ⊙ z to the block's output."""

    norm: Literal["complex", "layer", "none"] = "complex"
    """Divide by |h| + 1e-8 (printed), apply LayerNorm over both planes, or neither."""

    h0: Literal["zero", "learned"] = "zero"
    """The state before the first step: 0 (printed), or a learned point for each channel."""

    coupling_rank: int = 0
    """Rank of the coupling u vᵀ from each layer's output into the next recurrence; 0 for none."""

    coupling: Literal["shared", "per_layer"] = "shared"
    """One u vᵀ for all layers, or one for each."""

    def __post_init__(self) -> None:
        check_types(self)
        check_ranges(self, coupling_rank=(0, 65_536))
        if self.coupling == "per_layer" and not self.coupling_rank:
            raise InputError("it needs a coupling_rank of 1 or more", "coupling", self.coupling)


@dataclass(frozen=True, kw_only=True)
class Rotor(Cell):
    """A state that rotations of SO(order) turn, or that the input replaces."""

    order: int = 2
    """Real numbers in a channel's state; 2 is the complex plane."""

    skip: bool = True
    """Add σ(g) ⊙ z to the block's output."""

    recall: bool = False
    """Add b ⊙ h_{t−1} to the block's output, b learned: the next layer sees what was replaced."""

    parts: int = 0
    """The largest k whose parts of a turn angles are multiples of when training ends; 0: any angle."""

    def __post_init__(self) -> None:
        check_types(self)
        check_ranges(self, order=(2, 16), parts=(0, 1024))


@dataclass(frozen=True, kw_only=True)
class Router(Cell):
    """Places between which a token moves contents: any finite machine."""

    places: int = 0
    """Places of a group of channels; 0 makes all channels one group."""

    maps: int = 0
    """Number of maps, from which the input chooses one; 0 for one map for each token."""

    def __post_init__(self) -> None:
        check_types(self)
        check_ranges(self, places=(0, 65_536), maps=(0, 10**6))


@dataclass(frozen=True, kw_only=True)
class Counter(Cell):
    """Whole numbers to which every token adds."""


@dataclass(frozen=True, kw_only=True)
class Switch(Cell):
    """Channels that a gate sets to a learned point for good."""


@dataclass(frozen=True, kw_only=True)
class Tracker(Cell):
    """Heads of several kinds side by side; training keeps the few that the answers need."""

    order = 1


@dataclass(frozen=True, kw_only=True)
class Resonator(Cell):
    """Channels of fixed frequencies, for signals and text: a cell of `csprop.CSPLayer` alone."""


BUILT_IN: dict[str, type[Cell]] = dict(KINDS)
"""The kinds that come with csprop."""
