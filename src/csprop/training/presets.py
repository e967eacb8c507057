"""The presets, each a function of the task: `paper`, as printed, and `rotor`, the exact family."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from csprop.errors import InputError
from csprop.nn.config import ModelOptions, check_ranges, check_types


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How to train. `Recipe()` is the paper's setup."""

    length: int = 16
    """Length of the sequences to draw for a task, the paper's T."""

    samples: int = 0
    """Sequences to draw for a task, before the split; 0 is the paper's number."""

    split: Literal["paper", "disjoint"] = "paper"
    """Deal out rows, or sequences so that none stands on both sides."""

    supervise: Literal["last", "every"] = "last"
    """Learn from the label of the whole, or of every prefix."""

    lengths: Literal["fixed", "drawn"] = "fixed"
    """Whole sequences, or labelled prefixes of them, drawn anew in each epoch."""

    loss: Literal["cross_entropy", "focal"] = "cross_entropy"
    """Focal loss weighs down what is already right."""

    focal_gamma: float = 2.0
    """Exponent of the focal loss."""

    focal_alpha: float = 0.25
    """Weight of class 1 in the focal loss of two classes; the other's is 1 − α."""

    lr: float = 1e-3
    """Adam's learning rate at the start."""

    batch_size: int = 64
    """Sequences a step; fewer where the data are few, so that an epoch has 20 steps."""

    epochs: int = 300
    """The most epochs to train."""

    patience: int = 10
    """Epochs without a better held-out accuracy before the learning rate is halved."""

    clip_norm: float = 1.0
    """Largest gradient norm; larger ones are scaled down."""

    clip_from_epoch: int = 0
    """First epoch that clips; the paper also speaks of clipping only in later stages."""

    target: float | None = None
    """Held-out accuracy to reach: missing it is exit code 1. Without it, 1.0 ends training early."""

    hold: int = 0
    """Stop once the target has held for so many epochs; 0 trains to the last epoch."""

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("lr", "clip_norm"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"{name}={getattr(self, name)}: write a number above 0")
        check_ranges(
            self,
            length=(1, 10**7),
            samples=(0, 10**8),
            batch_size=(1, 10**8),
            epochs=(1, 10**8),
            patience=(0, 10**8),
            clip_from_epoch=(0, 10**8),
            hold=(0, 10**8),
            focal_gamma=(0, 100),
            focal_alpha=(0, 1),
            target=(0, 1),
        )


FIRST_RECIPE = frozenset(
    [
        "length",
        "samples",
        "split",
        "supervise",
        "lengths",
        "loss",
        "focal_gamma",
        "focal_alpha",
        "lr",
        "batch_size",
        "epochs",
        "patience",
        "clip_norm",
        "clip_from_epoch",
        "target",
        "hold",
    ]
)
"""As `FIRST_OPTIONS` of the model."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A model and how to train it."""

    model: ModelOptions = field(default_factory=ModelOptions)
    recipe: Recipe = field(default_factory=Recipe)


class Asking(Protocol):
    """What a preset looks at in a task."""

    @property
    def order(self) -> int: ...
    @property
    def depth(self) -> int: ...
    @property
    def finite(self) -> bool: ...
    @property
    def loss(self) -> Literal["cross_entropy", "focal"]: ...


@dataclass(frozen=True)
class Plain:
    """A task that asks for nothing special, as a file does."""

    order: int = 2
    depth: int = 1
    finite: bool = True
    loss: Literal["cross_entropy", "focal"] = "cross_entropy"


def paper(task: Asking) -> Preset:
    """As printed, with the loss that the paper trains the task with."""
    return Preset(recipe=Recipe(loss=task.loss))


def rotor(task: Asking) -> Preset:
    """The exact family: 64 real numbers a layer that turn, with the order and depth the task asks for.

    A gate keeps a channel's state or replaces it, 0 or 1. Where no finite machine solves the task, the
    model counts by adding, which has no end, and not by turning, which comes round.
    """
    recipe = Recipe(split="disjoint", supervise="every", lr=1e-2, epochs=100, hold=10)
    if not task.finite:
        adding = ModelOptions(
            width=32, depth=2, rotate="none", rotation="per_channel", angle="free", decay="unit",
            gate="per_channel", activation="boundary", norm="complex", h0="learned", decoder="cos_sin",
        )  # fmt: skip
        return Preset(model=adding, recipe=recipe)
    turning = ModelOptions(
        order=task.order,
        width=64 // task.order,  # as many real numbers, whatever the order
        depth=task.depth,
        rotate="state",
        rotation="per_channel",
        angle="free",
        decay="switch",
        gate="per_channel",
        activation="none",
        recall=task.depth > 1,  # a lone layer has none above it to recall for
        norm="none",
        h0="learned",
        decoder="linear",
    )
    return Preset(model=turning, recipe=recipe)


PRESETS: dict[str, Callable[[Asking], Preset]] = {"rotor": rotor, "paper": paper}


def preset(name: str, task: Asking) -> Preset:
    """A preset as a task gets it.

    Raises:
        InputError: there is no preset of this name.
    """
    if name not in PRESETS:
        raise InputError(f"there is no preset {name!r}: write {' or '.join(PRESETS)}")
    return PRESETS[name](task)
