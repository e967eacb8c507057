"""The two named recipes: `paper`, as printed, and `rotor`, the exact family."""

from dataclasses import dataclass, field, replace
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


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A model and how to train it."""

    model: ModelOptions = field(default_factory=ModelOptions)
    recipe: Recipe = field(default_factory=Recipe)


PRESETS = {
    "rotor": Preset(
        model=ModelOptions(
            width=32,
            depth=2,
            rotate="state",
            rotation="per_channel",
            angle="free",
            decay="reset",
            gate="per_channel",
            activation="none",
            norm="none",
            h0="learned",
            decoder="complex",
        ),
        recipe=Recipe(split="disjoint", supervise="every", lr=1e-2, epochs=100, hold=10),
    ),
    "paper": Preset(),
}


class Asking(Protocol):
    """A built-in task, as far as a preset looks at it."""

    name: str
    order: int
    depth: int
    finite: bool


def preset(name: str, task: Asking | None = None) -> Preset:
    """A preset as it stands for a task, or for a file of one's own (None).

    Where a finite machine is wanted, the exact family has gates that are 0 or 1, and the depth and the
    order that the task asks for: for a file, one layer of order 2. Parenthesis has no such machine: it
    counts by adding, which has no end, and not by turning, which comes round.
    The paper keeps focal loss for parenthesis alone.
    """
    if name not in PRESETS:
        raise InputError(f"there is no preset {name!r}: write {' or '.join(PRESETS)}")
    chosen = PRESETS[name]
    if name == "rotor" and task is not None and not task.finite:
        return replace(
            chosen,
            model=replace(
                chosen.model,
                rotate="none",
                decay="unit",
                activation="boundary",
                norm="complex",
                decoder="cos_sin",
            ),
        )
    if name == "rotor":
        order, depth = (2, 1) if task is None else (task.order, task.depth)
        model = replace(
            chosen.model,
            order=order,
            width=2 * chosen.model.width // order,  # as many real numbers, whatever the order
            depth=depth,
            decay="switch",
            recall=depth > 1,  # a lone layer has none above it to recall for
            decoder="linear",
        )
        return replace(chosen, model=model)
    if task is not None and (name, task.name) == ("paper", "parenthesis"):
        return replace(chosen, recipe=replace(chosen.recipe, loss="focal"))
    return chosen
