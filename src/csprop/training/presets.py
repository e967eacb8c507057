"""The presets, each a function of the task, and the options of training."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from csprop.cells.options import Counter, Paper, Rotor, Router, Switch, Tracker
from csprop.errors import InputError
from csprop.fields import check_ranges, check_types
from csprop.nn.config import Architecture

if TYPE_CHECKING:
    from csprop.tasks.base import Task

LONGER = 40
"""The least length for trackers: shorter sequences can be counted, where a group is meant."""
SHORTEST = 4
"""The longest sequences of the first epoch, where short ones come first."""
Needs: TypeAlias = "Task | type[Task]"
"""A task; a class has the defaults of its tasks."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The options of training. `Recipe()` is the paper's setup."""

    length: int = 16
    """Length of the sequences that are drawn for a task, the paper's T."""
    samples: int = 0
    """Number of sequences to draw for a task, before the split; 0 means the task's default."""
    split: Literal["paper", "disjoint"] = "paper"
    """paper: split the rows; disjoint: no sequence is in both sets."""
    supervise: Literal["last", "every"] = "last"
    """Learn from the label of the whole sequence (last), or of every prefix (every)."""
    lengths: Literal["fixed", "drawn"] = "fixed"
    """Learn from whole sequences (fixed), or from prefixes drawn in each epoch (drawn)."""
    hold_pairs: float = 0.0
    """Share of all ordered pairs of tokens that never follow each other in training."""
    loss: Literal["cross_entropy", "focal"] = "cross_entropy"
    """The loss; focal loss gives less weight to well-classified examples."""
    focal_gamma: float = 2.0
    """Exponent γ of the focal loss."""
    focal_alpha: float = 0.25
    """Weight α of class 1 in the focal loss of two classes; class 0 has weight 1 − α."""
    lr: float = 1e-3
    """Initial learning rate of Adam."""
    batch_size: int = 64
    """Sequences per step; reduced for small data to give an epoch at least 20 steps."""
    epochs: int = 300
    """Largest number of epochs."""
    patience: int = 10
    """Epochs without a better held-out accuracy before schedule plateau halves the learning rate."""
    schedule: Literal["plateau", "cosine", "fixed"] = "plateau"
    """plateau: the learning rate is halved when the held-out accuracy stops rising; cosine: it falls
    along half a cosine over all epochs, from `lr` to `last_lr`; fixed: it stays as it is."""
    last_lr: float = 1e-6
    """Learning rate at the end of the schedule cosine."""
    weight_decay: float = 0.0
    """Adam adds this multiple of every weight to its gradient, which draws weights towards 0."""
    clip_norm: float = 1.0
    """Largest gradient norm; larger gradients are scaled down to it."""
    clip_from_epoch: int = 0
    """First epoch in which gradients are clipped."""
    target: float | None = None
    """Held-out accuracy to reach; if it is missed, the exit code is 1. Without it, `hold` waits for
    1.0."""
    hold: int = 0
    """Stop after this many consecutive epochs at the target; 0 trains for all epochs."""
    cool: float = 1.0
    """Last temperature of routers; the first is 1. The lower it is, the more each place sends all of
    its content to a single place."""
    cool_epochs: int = 0
    """Epochs until the last temperature is reached; 0: it holds from the first epoch on."""
    short_first: int = 0
    """Learn from short sequences first: for so many epochs the longest grows from 4 tokens on. 0: learn
    from all lengths at once."""
    restart: int = 0
    """Begin again with new weights after so many epochs, unless the target was reached; then training
    ends. 0: never. The best weights of all attempts are the result."""

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("lr", "clip_norm", "cool"):
            if not 0 < (value := getattr(self, name)) < math.inf:
                raise InputError("write a number above 0", name, value)
        for name in ("last_lr", "weight_decay"):
            if not 0 <= (value := getattr(self, name)) < math.inf:
                raise InputError("write a number from 0 on", name, value)
        if self.schedule == "cosine" and self.last_lr > self.lr:
            above = f"it is above the first learning rate: write 0 to {self.lr}"
            raise InputError(above, "last_lr", self.last_lr)
        counts = ("patience", "clip_from_epoch", "hold", "cool_epochs", "short_first", "restart")
        check_ranges(
            self, length=(1, 10**7), samples=(0, 10**8), batch_size=(1, 10**8), epochs=(1, 10**8),
            focal_gamma=(0, 100), focal_alpha=(0, 1), target=(0, 1), hold_pairs=(0, 1),
            **dict.fromkeys(counts, (0, 10**8)),
        )  # fmt: skip

    def within(self, epoch: int) -> int:
        """Return the epoch, counted from 1, within its attempt."""
        return (epoch - 1) % self.restart + 1 if self.restart else epoch

    def temperature(self, epoch: int) -> float:
        """Return the temperature of routers in an epoch, counted from 1; it falls geometrically."""
        done = min(1.0, (self.within(epoch) - 1) / self.cool_epochs) if self.cool_epochs else 1.0
        return self.cool**done

    def cosine_lr(self, epoch: int) -> float:
        """Return the learning rate of an epoch with the schedule cosine, as torch's CosineAnnealingLR.

        It is `lr` in the first epoch, and `last_lr` after the last one.
        """
        done = (self.within(epoch) - 1) / (self.restart or self.epochs)
        left = (1 + math.cos(math.pi * done)) / 2
        return self.last_lr + (self.lr - self.last_lr) * left

    def longest(self, epoch: int, whole: int) -> int:
        """Return the longest length of an epoch, where `whole` is the longest length of all."""
        epoch = self.within(epoch)
        if epoch > self.short_first:
            return whole
        return min(whole, SHORTEST + (whole - SHORTEST) * (epoch - 1) // self.short_first)


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A model and how to train it."""

    model: Architecture = field(default_factory=Architecture)
    recipe: Recipe = field(default_factory=Recipe)


def paper(task: Needs) -> Preset:
    """Return the model as printed, with the loss that the paper uses for the task."""
    return Preset(recipe=Recipe(loss=task.loss))


def rotor(task: Needs) -> Preset:
    """Return rotors, which can be locked: 64 real numbers per layer, with the task's order and depth.

    A gate of 0 or 1 in each channel keeps and rotates the state, or replaces it. If no finite machine
    solves the task, the model counts by adding instead, because a rotation is periodic.
    """
    recipe = Recipe(split="disjoint", supervise="every", lr=1e-2, epochs=100, hold=10)
    if not task.finite:
        adding = Paper(rotate="none", decay="unit", gate="per_channel", h0="learned")
        return Preset(model=Architecture(width=32, depth=2, cell=adding), recipe=recipe)
    parts, recall = 64 if task.order == 2 else 0, task.depth > 1  # no layer above a lone one recalls
    turning = Rotor(order=task.order, recall=recall, parts=parts)
    width = 64 // task.order  # the same number of reals for every order
    model = Architecture(width=width, depth=task.depth, cell=turning, decoder="linear")
    return Preset(model=model, recipe=recipe)


def router(task: Needs) -> Preset:
    """Return a router with the task's number of places: any machine with at most that many states.

    It learns from every prefix that has a label; in a file that may be the whole sequence alone.
    """
    model = Architecture(width=task.places, depth=1, cell=Router(), decoder="linear")
    recipe = Recipe(
        split="disjoint", supervise="every", lr=0.05, batch_size=32, epochs=40, hold=3, cool=0.2,
        cool_epochs=20, short_first=8,
    )  # fmt: skip
    return Preset(model=model, recipe=recipe)


def counter(task: Needs) -> Preset:
    """Return counters below switches, for tasks that no finite machine solves.

    The first layer adds whole numbers, and the phases of its sums tell zero, above and below. Each
    channel of the second layer can be switched once, and remembers what the counts have been.
    """
    model = Architecture(width=32, cells=(Counter(), Switch()), decoder="linear")
    recipe = Recipe(split="disjoint", supervise="every", lr=1e-2, batch_size=32, epochs=60, hold=5)
    return Preset(model=model, recipe=recipe)


def tracker(task: Needs) -> Preset:
    """Return two layers of heads of all kinds, the same for every task: nothing about it is used.

    Training keeps the heads that the answers need. They are read as a machine, and proven.
    """
    model = Architecture(width=64, depth=2, cell=Tracker(), decoder="linear")
    recipe = Recipe(
        split="disjoint", supervise="every", samples=3200, lr=4e-3, batch_size=16, epochs=24,
        restart=6, schedule="cosine", short_first=3,
    )  # fmt: skip
    return Preset(model=model, recipe=recipe)


PRESETS: dict[str, Callable[[Needs], Preset]] = {
    "rotor": rotor,
    "router": router,
    "counter": counter,
    "tracker": tracker,
    "paper": paper,
}


def preset(name: str, task: Needs) -> Preset:
    """Return a preset for a task, by its name in `PRESETS`."""
    if name not in PRESETS:
        raise InputError(f"there is no preset {name!r}: choose from {', '.join(PRESETS)}")
    chosen = PRESETS[name](task)
    length = task.length
    if name == "tracker" and not isinstance(task, type):
        length = task.length_from(max(length, LONGER))
    return replace(chosen, recipe=replace(chosen.recipe, length=length))
