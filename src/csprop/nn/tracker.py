"""A layer that tracks state without a hint: it has many heads, and training prunes all but a few.

    U = projections of x      f = [what each head gives]      y = W f + b

The heads are listed in `HEADS`, and cells/heads.py has their equations. Three things make the layer
exact, and all of them happen in `forward`, in its backward pass and in `eval()`:

1. The readout W is sparse. Its columns form a group for each head, and the gradient of W has a penalty
   added that pulls small groups towards 0. The penalty is measured in the gradient's own root mean
   square, and is off while that is large: pruning begins when there is little left to learn. If the
   answer depends on a few heads, longer sequences bring no combination of the others.
2. Rotations are withheld from three rows of eight. They learn groups that nothing else can, but they
   could also stand in for a counter, and drift. If the rows without them are solved as well, `eval()`
   leaves them out.
3. Otherwise `eval()` looks for the finite group near to each rotation that the readout uses, and
   follows its table (`csprop.cells.snapping`): exact at every length.

All of it is in these lines, because each of the three needs what the others have seen.
"""

import math
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Generator, Tensor, nn

from csprop.cells.block import linear
from csprop.cells.heads import Counts, Head, Routes, Shift, Turns
from csprop.cells.snapping import FURTHEST, Group, distinct, find_group
from csprop.nn.feature_block import check_dropout
from csprop.ops.scan import wide

HEADS: tuple[Head, ...] = (
    Turns(count=16, spread=1.0, pace=1.0, price=3.0, order=3, reflections=2),
    Turns(count=4, spread=1.0, pace=1.0, price=3.0, order=5, reflections=4),
    Routes(count=8, spread=1.0, pace=4.0, places=5),
    Counts(count=48, spread=0.75, pace=0.1),
)
"""The heads of every layer, beside a `Shift` of its features."""
PENALTY = 0.1
"""The size of the penalty, in root mean squares of the gradient of W."""
LEAST, KNEE = 0.25, 0.25
"""Groups below KNEE times the largest get the full penalty; above twice that, the fraction LEAST."""
LEARNING = 0.5
"""The penalty is full below this part of the gradient's long-term size, and 0 above twice that."""
FAST, SLOW, SEEN = 0.9, 0.999, 0.95
"""Decays of the averages: of the gradient of W, short and long, and of the gradients of rows."""
WITHHELD, OF = 3, 8
"""WITHHELD of every OF rows train without rotations."""
READY = 20
"""Warm-up steps before the largest gradient of rows is recorded."""
SOLVED, ALIKE = 0.1, 2.0
"""Rotations are left out if rows without them have less than this part of the largest gradient so far,
or less than this multiple of the gradient of rows with them."""
USED = 0.03
"""A head is used if its group is at least this large, beside the largest one."""
MOST_INPUTS, CLOSE = 40, 1e-2
"""No group is looked for if a batch has more distinct inputs; closer ones count as equal."""


class Tracker(nn.Module):
    """Features (B, T, F) to features, and the state to carry on from, (B, 1, K)."""

    pace: Tensor
    group: Tensor
    group_size: Tensor
    price: Tensor
    turned: Tensor
    averages: Tensor
    steps: Tensor
    inputs: Tensor
    known: Tensor

    def __init__(self, features: int, generator: Generator) -> None:
        super().__init__()
        shift = Shift(count=features, spread=0.0, pace=0.0)
        self.features, self.heads = features, (*HEADS, shift)
        inputs, size = [head.inputs for head in self.heads], [head.size for head in self.heads]
        spread = self._each_input(lambda head: head.spread / (head.pace or 1))
        drawn = torch.randn(sum(inputs), features, generator=generator)
        self.weight = nn.Parameter(spread[:, None] * drawn)
        self.bias = nn.Parameter(torch.zeros(sum(inputs)))
        self.readout = linear(sum(size), features, generator, spread=0.1)
        nn.init.zeros_(self.readout.bias)
        self._inputs = inputs
        self._stored = [head.stored for head in self.heads]
        ends = [0, *accumulate(head.count for head in self.heads)]
        each = zip(self.heads, ends, strict=False)
        group = torch.cat([torch.arange(head.size) % head.count + first for head, first in each])
        columns = self._each_group(lambda head: head.size // head.count)
        size_of_group = columns.mul(features).sqrt()
        constants = {
            "pace": self._each_input(lambda head: head.pace),
            "group": group,
            "group_size": size_of_group,
            "price": self._each_group(lambda head: head.price) * size_of_group,
            "turned": torch.arange(sum(size)) < sum(head.size for head in self.turns),
        }
        for name, value in constants.items():
            self.register_buffer(name, value, persistent=False)
        # What training has seen: averages of squared gradients of W, of the gradients of rows with and
        # without rotations, the largest of these, and the number of steps.
        self.register_buffer("averages", torch.zeros(5))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        # Distinct inputs at the end of training, and how many they are.
        self.register_buffer("inputs", torch.zeros(MOST_INPUTS, features))
        self.register_buffer("known", torch.zeros((), dtype=torch.int64))
        self._seen: Tensor | None = None
        self._groups: list[dict[int, tuple[Tensor, Group]]] | None = None

    def _each_input(self, value: Callable[[Head], float]) -> Tensor:
        return torch.cat([torch.full((head.inputs,), float(value(head))) for head in self.heads])

    def _each_group(self, value: Callable[[Head], float]) -> Tensor:
        return torch.cat([torch.full((head.count,), float(value(head))) for head in self.heads])

    @property
    def turns(self) -> list[Turns]:
        """The heads that rotate; they come first."""
        return [head for head in self.heads if isinstance(head, Turns)]

    def initial_state(self, batch: int = 1) -> Float[Tensor, "B 1 K"]:
        """Return the state before the first step, for each sequence of a batch."""
        like = wide(self.weight.detach())
        return torch.cat([head.start(batch, like) for head in self.heads], dim=1)[:, None]

    def forward(
        self,
        x: Float[Tensor, "B T F"],
        state: Float[Tensor, "B 1 K"] | None = None,
        reset: Bool[Tensor, "B T"] | None = None,
    ) -> tuple[Float[Tensor, "B T F"], Float[Tensor, "B 1 K"]]:
        """Return the output of every step, and the last state."""
        state = self.initial_state(len(x)) if state is None else state
        if not x.shape[1]:
            return torch.zeros_like(x), state
        given, rotate = wide(x), self.training or self.uses_rotations
        parts = [*self._project(given)[:-1], given]  # the shift takes the input itself
        before = wide(state)[:, 0].split(self._stored, dim=1)
        given_by, last = [], []
        for number, (head, u, h) in enumerate(zip(self.heads, parts, before, strict=True)):
            if isinstance(head, Turns) and not rotate:
                y = u.new_zeros(*u.shape[:2], head.size)
            elif isinstance(head, Turns) and not self.training:
                y, h = self._follow(number, head, u, h, reset)
            else:
                y, h = head.run(u, h, reset)
            given_by.append(y)
            last.append(h)
        features = torch.cat(given_by, dim=2)
        if self.training:
            y = self._learn(given, features)
        else:
            y = F.linear(features, wide(self.readout.weight), wide(self.readout.bias))
        return y.to(x.dtype), torch.cat(last, dim=1)[:, None]

    def _project(self, x: Float[Tensor, "*E F"]) -> tuple[Float[Tensor, "*E I"], ...]:
        """Return the projections that each head takes."""
        weight = wide(self.weight) * (self.pace[:, None] / math.sqrt(self.features))
        return F.linear(x, weight, wide(self.bias) * self.pace).split(self._inputs, dim=-1)

    def _learn(self, x: Tensor, features: Tensor) -> Tensor:
        """Return the output while training, with rotations withheld from some rows."""
        self._seen = x.detach() if x.numel() else self._seen
        without = (WITHHELD * torch.arange(len(x), device=x.device) + self.steps) % OF < WITHHELD
        features = features.masked_fill((without[:, None] & self.turned)[:, None], 0)
        weight = _Sparse.apply(self.readout.weight, self)
        y = F.linear(features, wide(weight), wide(self.readout.bias))
        if y.requires_grad:
            y.register_hook(lambda gradient: self._watch(gradient, without))
        return y

    @torch.no_grad()
    def _watch(self, gradient: Tensor, without: Tensor) -> None:
        """Average the gradients of rows without rotations, and of rows with them."""
        sizes = gradient.flatten(1).norm(dim=1)
        if not sizes.isfinite().all():
            return
        for place, rows in ((2, sizes[without]), (3, sizes[~without])):
            if len(rows):
                old = self.averages[place]
                self.averages[place] = torch.where(
                    old > 0, SEEN * old + (1 - SEEN) * rows.mean(), rows.mean()
                )
        if self.steps >= READY:
            self.averages[4] = self.averages[2:].max()

    @property
    def uses_rotations(self) -> bool:
        """True if the answer needs rotations, as far as training has shown."""
        without, with_them, most = self.averages[2:].tolist()
        return most == 0 or (without > SOLVED * most and without > ALIKE * with_them)

    @torch.no_grad()
    def penalty(self, gradient: Tensor) -> Tensor:
        """Return what is added to the gradient of W: nothing if that is not finite."""
        now = gradient.square().mean()
        if not now.isfinite():
            return torch.zeros_like(gradient)
        self.steps += 1
        self.averages[0] = FAST * self.averages[0] + (1 - FAST) * now
        self.averages[1] = SLOW * self.averages[1] + (1 - SLOW) * now
        steps = self.steps.double()
        fast = (self.averages[0] / (1 - FAST**steps)).sqrt()
        slow = (self.averages[1] / (1 - SLOW**steps)).sqrt().clamp(min=1e-30)
        resting = (2 - fast / slow / LEARNING).clamp(0, 1)
        sizes = self._group_sizes()
        density = sizes / self.group_size
        share = LEAST + (1 - LEAST) * (2 - density / density.max() / KNEE).clamp(0, 1)
        drawn = PENALTY * slow * resting * self.price * share / sizes
        return drawn[self.group].to(gradient) * self.readout.weight

    def _group_sizes(self) -> Tensor:
        squares = self.readout.weight.detach().square().sum(dim=0)
        return torch.zeros_like(self.price).index_add(0, self.group, squares).sqrt().clamp(min=1e-8)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Tracker":
        self._groups = None
        return super()._apply(fn, recurse)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._groups = None
        super()._load_from_state_dict(*args, **kwargs)

    @torch.no_grad()
    def train(self, mode: bool = True) -> "Tracker":
        """Return to training; or, when training ends, note the inputs from which groups are found."""
        ends = self.training and not mode
        super().train(mode)
        if ends and self._seen is not None:
            found = distinct(self._seen.flatten(0, 1), CLOSE, MOST_INPUTS)
            self.known.fill_(0 if found is None else len(found))
            if found is not None:
                self.inputs[: len(found)] = found
            self._seen = None
        self._groups = None
        return self

    @property
    def groups(self) -> list[dict[int, tuple[Tensor, Group]]]:
        """For each of `turns`, the heads in use that have a group: what they have learned for each
        input, and the group near to it."""
        if self._groups is None:
            self._groups = [dict[int, tuple[Tensor, Group]]() for _ in self.turns]
            density = self._group_sizes() / self.group_size
            used = (density > USED * density.max()).split([head.count for head in self.heads])
            inputs = wide(self.inputs[: int(self.known)])
            for number, head in enumerate(self.turns if len(inputs) else ()):
                rotations = head.rotations(self._project(inputs)[number].detach())
                for each in used[number].nonzero()[:, 0].tolist():
                    group = find_group(rotations[:, each].cpu())
                    if group is not None:
                        self._groups[number][each] = rotations[:, each], group
        return self._groups

    def _follow(
        self, number: int, head: Turns, u: Tensor, state: Tensor, reset: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return what rotations give in evaluation: those with a group follow its table."""
        y, last = head.run(u, state, reset)
        if not self.groups[number]:
            return y, last
        y, last = (
            y.unflatten(2, (*head.held, head.count)).clone(),
            last.unflatten(1, (*head.held, head.count)).clone(),
        )
        now = state.unflatten(1, (*head.held, head.count))
        rotations = head.rotations(u.flatten(0, 1)).unflatten(0, u.shape[:2])
        for each, (learned, group) in self.groups[number].items():
            table, elements = group.table.to(u.device), group.elements.to(u)
            choices = learned.flatten(1).expand(len(u), -1, -1)
            away, moves = torch.cdist(rotations[:, :, each].flatten(2), choices).min(dim=2)
            if away.max() > FURTHEST:  # an input that the last batch of training did not have
                continue
            here = now[..., each].flatten(1)
            place = torch.cdist(here, elements.flatten(1)).argmin(dim=1)
            visited = []
            for step in range(u.shape[1]):
                if reset is not None:
                    place = place.masked_fill(reset[:, step], 0)
                place = table[place, moves[:, step]]
                visited.append(place)
            y[..., each] = math.sqrt(head.order) * elements[torch.stack(visited, dim=1)]
            last[..., each] = elements[place]
        return y.flatten(2), last.flatten(1)


class _Sparse(torch.autograd.Function):
    """The weights of a readout, whose gradient has the penalty added."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, tracker: Tracker) -> Tensor:
        ctx.tracker = tracker
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (gradient,) = grads
        return gradient + ctx.tracker.penalty(gradient), None


class TrackerBlock(nn.Module):
    """A residual layer: x + dropout(tracker(norm(x))), with the interface of a `CSPBlock`."""

    def __init__(
        self, features: int, *, dropout: float = 0.0, generator: Generator | None = None
    ) -> None:
        super().__init__()
        check_dropout(dropout)
        self.norm, self.dropout = nn.LayerNorm(features), nn.Dropout(dropout)
        self.tracker = Tracker(features, torch.default_generator if generator is None else generator)
        self.temperature = 1.0  # nothing here needs one

    def initial_state(self, batch: int = 1) -> Float[Tensor, "B 1 K"]:
        """Return the state before the first step, for each sequence of a batch."""
        return self.tracker.initial_state(batch)

    def forward(
        self,
        x: Float[Tensor, "B T F"],
        state: Float[Tensor, "B 1 K"] | None = None,
        reset: Bool[Tensor, "B T"] | None = None,
        *,
        onto: Float[Tensor, "B T F"] | None = None,
    ) -> tuple[Float[Tensor, "B T F"], Float[Tensor, "B 1 K"]]:
        """Return the features after this layer, and the state to carry on from; see `CSPLayer`."""
        y, last = self.tracker(self.norm(x), state, reset)
        return (x if onto is None else onto) + self.dropout(y), last

    def step(
        self, x: Float[Tensor, "B F"], state: Tensor, settle: Callable[[Tensor], Tensor] = lambda h: h
    ) -> tuple[Float[Tensor, "B F"], Tensor]:
        """Take one step; `settle` replaces the new state."""
        y, last = self(x[:, None], state)
        return y[:, 0], settle(last)
