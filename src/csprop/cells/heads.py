"""The heads of a Tracker: small recurrences side by side, each with a discrete or an orthogonal state.

A head takes some projections U of the input, keeps a state, and outputs values of order 1.

| head | state | step | it gives |
|---|---|---|---|
| Turns | a rotation H of order m | H ← S_R … S_1 H, reflections S along U | √m H |
| Routes | shares of p places, at first all in one | h ← y² / Σ y², y = softmax(U + I) h | 2 h |
| Counts | a whole number c | c ← c + round(U), U cut to ±1 | tanh 1.5 c, e^{−c²}, c cut to ±4 |
| Shift | the input before | | the input before |

Each head learns at its own pace. U = (s/√F) P x + s b, where P starts with the spread σ/s: U starts
with the spread σ, and a step of Adam moves it by an amount proportional to s.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from csprop.ops import heads
from csprop.ops.counts import whole

WINDOW = 4
"""Counts beyond this look like this one. tanh and e^{−c²} hardly tell them apart in any case."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """`count` heads of a kind. They lie side by side, innermost in all shapes."""

    count: int
    spread: float
    """σ, the spread of U at the start."""
    pace: float
    """s, how fast U learns."""
    price: float = 1.0
    """A factor of the penalty: heads with a higher one are pruned sooner."""

    taken: ClassVar[tuple[int, ...]] = ()
    """The shape of U for one head."""
    held: ClassVar[tuple[int, ...]] = ()
    """The shape of the state of one head."""
    gives: ClassVar[int] = 1
    """Outputs for each number of the state."""
    recalls: ClassVar[bool] = False
    """True if `read` needs the state before each step."""

    @property
    def inputs(self) -> int:
        """Projections that all heads take."""
        return math.prod(self.taken) * self.count

    @property
    def stored(self) -> int:
        """Numbers of their states."""
        return math.prod(self.held) * self.count

    @property
    def size(self) -> int:
        """Numbers that they give."""
        return self.gives * self.stored

    def start(self, batch: int, like: Tensor) -> Float[Tensor, "B K"]:
        """Return the state before the first step."""
        return like.new_zeros(batch, self.stored)

    def run(
        self,
        u: Float[Tensor, "B T I"],
        state: Float[Tensor, "B K"],
        reset: Bool[Tensor, "B T"] | None,
        hard: bool = False,
    ) -> Float[Tensor, "B T K"]:
        """Return the states after every step; with `hard`, places hold all or nothing."""
        raise NotImplementedError

    def read(self, h: Float[Tensor, "B T K"], before: Float[Tensor, "B T K"]) -> Float[Tensor, "B T S"]:
        """Return what the heads give, from the states after every step and before it."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Turns(Head):
    """Rotations of order m: each step multiplies by reflections, an even number of them."""

    order: int
    reflections: int

    @property
    def taken(self) -> tuple[int, int]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.reflections, self.order

    @property
    def held(self) -> tuple[int, int]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.order, self.order

    def start(self, batch: int, like: Tensor) -> Tensor:
        return heads.identity(like.new_empty(batch, *self.held, self.count)).flatten(1)

    def run(self, u: Tensor, state: Tensor, reset: Tensor | None, hard: bool = False) -> Tensor:
        vectors = u.unflatten(2, (*self.taken, self.count))
        return heads.turns(vectors, state.unflatten(1, (*self.held, self.count)), reset).flatten(2)

    def read(self, h: Tensor, before: Tensor) -> Tensor:
        return math.sqrt(self.order) * h

    def rotations(self, u: Float[Tensor, "E I"]) -> Float[Tensor, "E N m m"]:
        """Return the rotation of one step for each row."""
        h = self.run(u[:, None], self.start(len(u), u), None)
        return h[:, 0].unflatten(1, (*self.held, self.count)).permute(0, 3, 1, 2)


@dataclass(frozen=True, kw_only=True)
class Routes(Head):
    """Groups of places between which each step moves shares; squaring makes them whole.

    If they are hard, each place sends all that it has to the place with the largest logit.
    """

    places: int

    @property
    def taken(self) -> tuple[int, int]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.places, self.places

    @property
    def held(self) -> tuple[int]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return (self.places,)

    def start(self, batch: int, like: Tensor) -> Tensor:
        return heads.first_place(like.new_empty(batch, *self.held, self.count)).flatten(1)

    def run(self, u: Tensor, state: Tensor, reset: Tensor | None, hard: bool = False) -> Tensor:
        stay = torch.eye(self.places, dtype=u.dtype, device=u.device)[:, :, None]
        logits = u.unflatten(2, (*self.taken, self.count)) + stay
        before = state.unflatten(1, (*self.held, self.count))
        if not hard:
            return heads.places(logits, before, reset).flatten(2)
        place, visited = before.argmax(dim=1), []
        for step, targets in enumerate(_largest(logits).unbind(1)):  # (B, source, N)
            if reset is not None:
                place = place.masked_fill(reset[:, step, None], 0)
            place = targets.gather(1, place[:, None])[:, 0]
            visited.append(place)
        shares = F.one_hot(torch.stack(visited, dim=1), self.places).to(u)  # (B, T, N, p)
        return shares.mT.flatten(2)

    def read(self, h: Tensor, before: Tensor) -> Tensor:
        return 2 * h


def _largest(logits: Float[Tensor, "B T p p N"]) -> Int64[Tensor, "B T p N"]:
    """Return the first target with the largest logit; torch's argmax is far slower here."""
    most, chosen = logits[:, :, 0], torch.zeros_like(logits[:, :, 0], dtype=torch.int64)
    for place in range(1, logits.shape[2]):
        more = logits[:, :, place] > most
        most, chosen = torch.where(more, logits[:, :, place], most), chosen.masked_fill(more, place)
    return chosen


@dataclass(frozen=True, kw_only=True)
class Counts(Head):
    """Whole numbers: their sign, and whether they are 0, look alike at every length."""

    gives = 2

    def run(self, u: Tensor, state: Tensor, reset: Tensor | None, hard: bool = False) -> Tensor:
        total = torch.cat([state[:, None], whole(u.clamp(-1, 1))], dim=1).cumsum(dim=1)
        counts = total[:, 1:]
        if reset is None:
            return counts
        steps = torch.arange(1, reset.shape[1] + 1, device=u.device)
        last = torch.where(reset, steps, 0).cummax(dim=1).values  # count from the sum before it
        before = total.gather(1, (last - 1).clamp(min=0)[:, :, None].expand_as(counts))
        return counts - torch.where(last[:, :, None] > 0, before, 0)

    def read(self, h: Tensor, before: Tensor) -> Tensor:
        seen = h.clamp(-WINDOW, WINDOW)
        return torch.cat([torch.tanh(1.5 * seen), torch.exp(-seen.square())], dim=2)


@dataclass(frozen=True, kw_only=True)
class Shift(Head):
    """The input of the step before: `count` is the number of features, and U is the input itself."""

    taken, recalls = (0,), True

    def run(self, u: Tensor, state: Tensor, reset: Tensor | None, hard: bool = False) -> Tensor:
        return u

    def read(self, h: Tensor, before: Tensor) -> Tensor:
        return before
