"""A layer that tracks state without a hint: it has many heads, and training prunes all but a few.

    x̂ = norm(x)               U = projections of x̂      f = [what each head gives]
    y = x + W f + b           the output: y + W₂ GELU(W₁ norm(y))

The heads are listed in `HEADS`, and cells/heads.py has their equations. Three things make the layer
exact, and all of them happen in `forward`, in its backward pass and in `eval()`:

1. The readout W is sparse. Its columns form a group for each head, and the gradient of W has a penalty
   added that pulls small groups towards 0. The penalty is measured in the gradient's own root mean
   square, and is off while that is large: pruning begins when there is little left to learn. If the
   answer depends on a few heads, longer sequences bring no combination of the others.
2. Rotations are withheld from three rows of eight. They learn groups that nothing else can, but they
   could also stand in for a counter, and drift. `eval()` leaves out heads whose groups are small, and
   the rotations if the rows without them are solved as well.
3. Otherwise `eval()` looks for the finite group near to each rotation that the readout uses, and
   follows its table (`csprop.cells.snapping`): exact at every length.

The file is over 300 lines, because the three steps share their statistics.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Generator, Tensor, nn

from csprop.cells.block import Block, Transition, linear
from csprop.cells.heads import Counts, Head, Routes, Shift, Turns
from csprop.cells.options import Cell, Shape
from csprop.cells.snapping import FURTHEST, Group, distinct, find_group
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
"""A head is used if its columns are at least this large, relative to the largest."""
MOST_INPUTS, CLOSE, PIECES = 40, 1e-2, 16
"""No group is looked for if a batch has more distinct inputs; closer ones count as equal. A batch may
come in some pieces."""


Groups = dict[int, tuple[Tensor, Group]]
"""Rotations by their number: what they have learned for each input, and the group near to it."""


class Followed(NamedTuple):
    """The heads that evaluation follows, and where their numbers are among those of all heads."""

    used: Bool[Tensor, " G"]
    heads: list[Head]
    inputs: Tensor
    states: Tensor
    columns: Tensor
    shifted: Tensor
    """The features that the shift gives."""
    known: Groups
    """The groups of rotations, numbered among all heads."""
    groups: dict[int, Groups]
    """The same for each order, numbered among the rotations in use."""


class SparseHeads(nn.Module):
    """All heads, and their readout: features (B, T, F) to features, and the last state, (B, 1, K)."""

    pace: Tensor
    group: Tensor
    group_size: Tensor
    price: Tensor
    turned: Tensor
    mean: Tensor
    fast: Tensor
    slow: Tensor
    without: Tensor
    beside: Tensor
    most: Tensor
    steps: Tensor
    inputs: Tensor
    known: Tensor
    kept: Tensor
    hard: Tensor

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
        for name, value in self._constants().items():
            self.register_buffer(name, value, persistent=False)
        # What training has seen: the mean features, in place of those of heads that are not used; two
        # averages of the squared gradient of W; those of the gradients of rows without rotations, and
        # of rows beside them; the largest of these; and how many steps.
        self.register_buffer("mean", torch.zeros(sum(size)))
        for name in ("fast", "slow", "without", "beside", "most", "steps"):
            self.register_buffer(name, torch.zeros(()))
        # The distinct inputs of the last batch, and how many; the heads that were not pruned.
        self.register_buffer("inputs", torch.zeros(MOST_INPUTS, features))
        self.register_buffer("known", torch.zeros(()))
        self.register_buffer("kept", torch.ones(len(self.price)))
        self.register_buffer("hard", torch.zeros(()))  # 1: places send all that they have to one place
        self._seen: list[Tensor] = []  # the inputs since the last backward pass but one
        self._learned = False  # True from a backward pass to the next input
        self._followed: Followed | None = None

    def _constants(self) -> dict[str, Tensor]:
        """Return what follows from the list of heads alone."""
        ends = [0, *accumulate(head.count for head in self.heads)]
        each = list(zip(self.heads, ends, strict=False))
        columns = self._each_group(lambda head: head.size // head.count)
        root = columns.mul(self.features).sqrt()
        return {
            "pace": self._each_input(lambda head: head.pace),
            "group": torch.cat([torch.arange(head.size) % head.count + first for head, first in each]),
            "group_size": root,
            "price": self._each_group(lambda head: head.price) * root,
            "turned": torch.arange(len(self.readout.weight[0])) < sum(head.size for head in self.turns),
        }

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
        y, last = self.run(self.project(x), state, reset)
        return y.to(x.dtype), last

    def project(self, x: Float[Tensor, "*E F"]) -> tuple[Float[Tensor, "*E I"], Float[Tensor, "*E F"]]:
        """Return the projections U that the heads take, and x itself, which the shift takes."""
        x = wide(x)
        weight = wide(self.weight) * (self.pace[:, None] / math.sqrt(self.features))
        bias = wide(self.bias) * self.pace
        if not self.training:
            weight, bias = weight[self.followed.inputs], bias[self.followed.inputs]
        return F.linear(x, weight, bias), x

    def run(
        self,
        inputs: tuple[Float[Tensor, "B T I"], Float[Tensor, "B T F"]],
        state: Float[Tensor, "B 1 K"],
        reset: Bool[Tensor, "B T"] | None,
    ) -> tuple[Float[Tensor, "B T F"], Float[Tensor, "B 1 K"]]:
        """Return the output of every step, and the last state, from what `project` gave."""
        (u, x), before = inputs, wide(state)[:, 0]
        heads, held = self.heads, before
        if not self.training:
            heads, held = self.followed.heads, before[:, self.followed.states]
            x = x[..., self.followed.shifted]
        elif x.numel():
            pieces = [] if self._learned else self._seen
            self._seen, self._learned = [*pieces, x.detach().flatten(0, 1)][-PIECES:], False
        taken = [*u.split([head.inputs for head in heads[:-1]], dim=-1), x]
        features, last = [], []
        for head, mine, start in zip(heads, taken, _split(held, heads), strict=True):
            h = self._states(head, mine, start, reset)
            features.append(head.read(h, _shift(h, start, reset) if head.recalls else h))
            last.append(h[:, -1])
        held = torch.cat(last, dim=1)
        if not self.training:
            held = before.index_copy(1, self.followed.states, held)
        return self._give(torch.cat(features, dim=2)), held[:, None]

    def read(self, h: Float[Tensor, "B T K"], before: Float[Tensor, "B T K"]) -> Float[Tensor, "B T F"]:
        """Return the output from the states after every step and before it."""
        heads = self.heads
        if not self.training:
            heads, states = self.followed.heads, self.followed.states
            h, before = h[..., states], before[..., states]
        pairs = zip(_split(h, heads), _split(before, heads), strict=True)
        features = [head.read(*each) for head, each in zip(heads, pairs, strict=True)]
        return self._give(torch.cat(features, dim=2))

    def _give(self, features: Tensor) -> Tensor:
        if self.training:
            return self._learn(features)
        weight, columns = wide(self.readout.weight), self.followed.columns
        others = wide(self.mean).index_fill(0, columns, 0)  # of heads that are not followed
        return F.linear(features, weight[:, columns], wide(self.readout.bias) + weight @ others)

    def _learn(self, features: Tensor) -> Tensor:
        """Return the output while training, with rotations withheld from some rows."""
        if features.numel():
            now = features.detach().mean(dim=(0, 1)).masked_fill(self.turned, 0)
            if now.isfinite().all():
                self.mean.lerp_(now.to(self.mean), 1 - SEEN)
        rows = torch.arange(len(features), device=features.device)
        without = (WITHHELD * rows + self.steps) % OF < WITHHELD
        features = features.masked_fill((without[:, None] & self.turned)[:, None], 0)
        weight = self.readout.weight
        if weight.requires_grad:
            weight = weight.view_as(weight)  # so the hook belongs to this pass alone
            weight.register_hook(lambda gradient: gradient + self.penalty(gradient))
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
        for average, rows in ((self.without, sizes[without]), (self.beside, sizes[~without])):
            if len(rows):
                mean = rows.mean()
                average.copy_(torch.where(average > 0, SEEN * average + (1 - SEEN) * mean, mean))
        if self.steps >= READY:
            self.most.copy_(torch.stack([self.most, self.without, self.beside]).max())

    @property
    def uses_rotations(self) -> bool:
        """True if the answer needs rotations, as far as training has shown."""
        needed = (self.without > SOLVED * self.most) & (self.without > ALIKE * self.beside)
        return bool((self.most == 0) | needed)

    @torch.no_grad()
    def penalty(self, gradient: Tensor) -> Tensor:
        """Return what is added to the gradient of W: nothing if that is not finite."""
        now = gradient.square().mean()
        self._learned = True
        if not now.isfinite():
            return torch.zeros_like(gradient)
        self.steps += 1
        self.kept.fill_(1)  # what was left out before learns again
        self.hard.zero_()
        self.fast.copy_(FAST * self.fast + (1 - FAST) * now)
        self.slow.copy_(SLOW * self.slow + (1 - SLOW) * now)
        steps = self.steps.double()
        fast = (self.fast / (1 - FAST**steps)).sqrt()
        slow = (self.slow / (1 - SLOW**steps)).sqrt().clamp(min=1e-30)
        resting = (2 - fast / slow / LEARNING).clamp(0, 1)
        sizes, density = self._group_sizes(), self.density
        share = LEAST + (1 - LEAST) * (2 - density / density.max() / KNEE).clamp(0, 1)
        drawn = PENALTY * slow * resting * self.price * share / sizes
        return drawn[self.group].to(gradient) * self.readout.weight

    @property
    def density(self) -> Float[Tensor, " G"]:
        """The root mean square of each head's weights in the readout."""
        return self._group_sizes() / self.group_size

    def _group_sizes(self) -> Tensor:
        squares = self.readout.weight.detach().square().sum(dim=0)
        return torch.zeros_like(self.price).index_add(0, self.group, squares).sqrt().clamp(min=1e-8)

    @property
    def followed(self) -> "Followed":
        """What evaluation follows."""
        if self._followed is None:
            self._followed = self._choose()
        return self._followed

    @torch.no_grad()
    def keep(self, heads: Bool[Tensor, " G"]) -> None:
        """Follow only these heads, and of these only the ones that were followed before."""
        known = self.followed
        self.kept.mul_(heads)
        self._followed = self._follow(known.used & heads, known.known)

    @contextmanager
    def leave_out(self, heads: Bool[Tensor, " G"]) -> Iterator[None]:
        """Leave out some heads for a while."""
        known = self.followed
        self._followed = self._follow(known.used & ~heads, known.known)
        try:
            yield
        finally:
            self._followed = known

    @property
    def drifting(self) -> Bool[Tensor, " G"]:
        """The rotations without a group."""
        known = torch.tensor([*self.followed.known], dtype=torch.int64)
        turns = torch.arange(len(self.kept)) < sum(head.count for head in self.turns)
        return turns.index_fill(0, known, False).to(self.kept.device)

    @property
    def loose(self) -> Bool[Tensor, " G"]:
        """The heads in use whose states need not be finitely many."""
        soft = (isinstance(head, Routes) and not self.hard for head in self.heads)
        pairs = zip(self.kinds(), soft, strict=True)
        return self.followed.used & sum((kind for kind, is_soft in pairs if is_soft), self.drifting)

    def kinds(self) -> list[Bool[Tensor, " G"]]:
        """Return the heads of each kind."""
        counts = torch.tensor([head.count for head in self.heads])
        kind = torch.arange(len(self.heads)).repeat_interleave(counts)
        return [kind.to(self.kept.device) == number for number in range(len(self.heads))]

    @torch.no_grad()
    def _choose(self) -> "Followed":
        """Choose the heads to follow, and look for the groups of the rotations among them."""
        used, first = self.density.gt(USED * self.density.max()) & (self.kept > 0), 0
        groups = Groups()
        inputs = wide(self.inputs[: int(self.known)])
        weight, bias = (
            wide(self.weight) * (self.pace[:, None] / math.sqrt(self.features)),
            wide(self.bias),
        )
        sizes = [head.inputs for head in self.heads]
        projected = F.linear(inputs, weight, bias * self.pace).split(sizes, dim=1)
        for number, head in enumerate(self.turns):
            if len(inputs) and self.uses_rotations:
                rotations = head.rotations(projected[number])
                for each in used[first : first + head.count].nonzero()[:, 0].tolist():
                    if group := find_group(rotations[:, each].cpu()):
                        groups[first + each] = rotations[:, each], group
            first += head.count
        if not self.uses_rotations:
            used[:first] = False
        return self._follow(used, groups)

    def _follow(self, used: Tensor, groups: Groups) -> "Followed":
        """Return the heads in use, and which rows and columns are theirs."""
        heads, mine, first = list[Head](), dict[int, Groups](), 0
        parts: list[list[Tensor]] = [[], [], []]
        ends, own = [0, 0, 0], used[:0].to(torch.int64)
        for head in self.heads:
            own = used[first : first + head.count].nonzero()[:, 0]
            heads.append(replace(head, count=len(own)))
            if isinstance(head, Turns):
                places = enumerate(own.tolist())
                mine[head.order] = {
                    i: groups[first + each] for i, each in places if first + each in groups
                }
            for number, size in enumerate((head.inputs, head.stored, head.size)):
                places = torch.arange(ends[number], ends[number] + size, device=used.device)
                parts[number].append(places.view(-1, head.count)[:, own].flatten())
                ends[number] += size
            first += head.count
        inputs, states, columns = (torch.cat(each) for each in parts)
        return Followed(used, heads, inputs, states, columns, own, groups, mine)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "SparseHeads":
        """Move or convert all tensors. Constants that leave the device `meta` are filled in."""
        self._followed, deferred = None, self.pace.is_meta
        super()._apply(fn, recurse)
        if deferred and not self.pace.is_meta:
            for name, value in self._constants().items():
                getattr(self, name).copy_(value)
        return self

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._followed = None
        super()._load_from_state_dict(*args, **kwargs)

    @torch.no_grad()
    def train(self, mode: bool = True) -> "SparseHeads":
        """Return to training; or, when training ends, note the inputs from which groups are found."""
        ends = self.training and not mode
        super().train(mode)
        if ends and self._seen:
            found = distinct(torch.cat(self._seen), CLOSE, MOST_INPUTS)
            self.known.fill_(0 if found is None else len(found))
            if found is not None:
                self.inputs[: len(found)] = found
            self._seen = []
        self._followed = None
        return self

    def _states(
        self, head: Head, u: Tensor, state: Tensor, reset: Tensor | None
    ) -> Float[Tensor, "B T K"]:
        """Return the states of heads; in evaluation rotations with a group follow its table."""
        if not head.count:
            return u.new_zeros(*u.shape[:2], 0)
        h = head.run(u, state, reset, not self.training and bool(self.hard))
        if self.training or not isinstance(head, Turns) or not self.followed.groups[head.order]:
            return h
        h = h.clone().unflatten(2, (*head.held, head.count))
        now = state.unflatten(1, (*head.held, head.count))
        rotations = head.rotations(u.flatten(0, 1)).unflatten(0, u.shape[:2])
        for each, (learned, group) in self.followed.groups[head.order].items():
            h[..., each] = _follow_table(rotations[:, :, each], now[..., each], learned, group, reset)
        return h.flatten(2)


def _follow_table(
    rotations: Float[Tensor, "B T m m"],
    here: Float[Tensor, "B m m"],
    learned: Float[Tensor, "K m m"],
    group: Group,
    reset: Tensor | None,
) -> Float[Tensor, "B T m m"]:
    """Return the states after every step: elements of the group, wherever its table says the next one.

    The table does not know an input that the last batch of training did not have. Such a rotation is
    applied as it is learned, and so are the next ones, until the state is an element again.
    """
    table, elements = group.table.to(here.device), group.elements.to(rotations)
    choices = learned.flatten(1).expand(len(rotations), -1, -1)
    away, moves = torch.cdist(rotations.flatten(2), choices).min(dim=2)
    known, visited = away <= FURTHEST, list[Tensor]()
    off, place = torch.cdist(here.flatten(1), elements.flatten(1)).min(dim=1)
    if known.all() and (off < CLOSE).all():
        for step in range(rotations.shape[1]):
            if reset is not None:
                place = place.masked_fill(reset[:, step], 0)
            place = table[place, moves[:, step]]
            visited.append(place)
        return elements[torch.stack(visited, dim=1)]
    for step in range(rotations.shape[1]):
        if reset is not None:
            here = torch.where(reset[:, step, None, None], elements[0], here)
        off, place = torch.cdist(here.flatten(1), elements.flatten(1)).min(dim=1)
        listed = known[:, step] & (off < CLOSE)
        following = elements[table[place, moves[:, step]]]
        here = torch.where(listed[:, None, None], following, rotations[:, step] @ here)
        visited.append(here)
    return torch.stack(visited, dim=1)


class TrackerBlock(Block):
    """The heads, then an MLP with one hidden layer; both see their input normalised, and are added."""

    recalls = True

    def __init__(self, cell: Cell, shape: Shape, generator: Generator) -> None:
        super().__init__(cell, shape, generator)
        width = shape.width
        self.norm, self.heads = nn.LayerNorm(width), SparseHeads(width, generator)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width),
            linear(width, 2 * width, generator),
            nn.GELU(),
            linear(2 * width, width, generator),
        )
        self.after = nn.LayerNorm(width)
        self.h0 = self.heads.initial_state()[0]

    def fill_start(self) -> None:
        if "heads" in self._modules:
            self.h0.copy_(self.heads.initial_state()[0])

    def transition(self, z: Float[Tensor, "B T 1 D"]) -> Transition:
        """Return the projections of the heads, and the normalised input."""
        return self.heads.project(self.norm(z[:, :, 0]))

    def finish(
        self,
        h: Float[Tensor, "B T 1 K"],
        z: Float[Tensor, "B T 1 D"],
        before: Float[Tensor, "B T 1 K"] | None = None,
    ) -> Float[Tensor, "B T 1 D"]:
        """Return the output from the states after every step and before it."""
        assert before is not None
        return self._leave(self.heads.read(h[:, :, 0], before[:, :, 0]), z)

    def forward(
        self,
        z: Float[Tensor, "B T 1 D"],
        state: Float[Tensor, "B 1 K"],
        reset: Bool[Tensor, "B T"] | None = None,
        coupled: Tensor | None = None,
        transition: Transition | None = None,
    ) -> tuple[Float[Tensor, "B T 1 D"], Float[Tensor, "B 1 K"]]:
        """Return the output and the last state; there is no coupling."""
        self._check(z, state, reset, coupled)
        if not z.shape[1]:
            return torch.zeros_like(z), state
        y, last = self.heads.run(transition or self.transition(z), state, reset)
        return self._leave(y, z), last

    def advance(
        self, z: Float[Tensor, "B 1 1 D"], state: Float[Tensor, "B 1 K"], coupled: Tensor | None = None
    ) -> Float[Tensor, "B 1 K"]:
        """Return the state after one more step."""
        return self.heads.run(self.transition(z), state, None)[1]

    def _leave(self, y: Tensor, z: Tensor) -> Tensor:
        x = z[:, :, 0] + y.to(z.dtype)
        return self.after(x + self.mlp(x))[:, :, None]


def _split(h: Tensor, heads: Sequence[Head]) -> tuple[Tensor, ...]:
    """Return the numbers of each kind of head."""
    return h.split([head.stored for head in heads], dim=-1)


def _shift(h: Tensor, state: Tensor, reset: Tensor | None) -> Tensor:
    """Return the states before every step."""
    before = torch.cat([state[:, None], h], dim=1)[:, :-1]
    return before if reset is None else before.masked_fill(reset[:, :, None], 0)
