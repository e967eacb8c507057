"""Pruning and further training of a model, towards a finite set of states.

A channel that is not needed usually rotates by arbitrary angles, so its states never form a finite set.
A pruned channel stays at its initial value: its angles are 0 and its gate is open. A channel that need
not rotate has angles of 0 too: it only stores the last value written to it, which is exact. The other
angles are rounded to fractions of a full turn.

A soft gate σ(δ) is never exactly 0 or 1, so a rotor's state shrinks slightly at every step. A rotor is
trained further with fewer channels. Other models are trained with their states snapped to the codes of
a search, with a penalty on the snapping distance.
"""

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeGuard, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Generator, Tensor

from csprop.cells.rotor import RotorBlock
from csprop.data.examples import UNLABELLED
from csprop.nn.model import CSP
from csprop.proof.examples import Judgement, Labelled
from csprop.proof.locked import nearest
from csprop.proof.models import Mask, Stepwise
from csprop.training.steps import descend

PRUNING_ROWS, GLANCE_ROWS = 1024, 256
OPEN = 40.0  # σ(40) is 1 in float32 and in float64
STEPS, BATCH, RATE, CLIP_NORM = 150, 64, 3e-3, 1.0
DRAWING_STEPS = 60
MOST_PARTS = 8
MOST_DIFFERENT, ALIKE = 64, 0.2
Part = Literal["kept", "turning"]


def is_rotor(model: object) -> TypeGuard[CSP]:
    """Return True if every layer rotates its state, with an angle and a gate for each channel."""
    return isinstance(model, CSP) and all(type(block) is RotorBlock for block in model.layers)


@torch.no_grad()
def follow(model: Stepwise, kept: Mask, tokens: Int64[Tensor, "N T"]) -> Float[Tensor, "N T C"]:
    """Return the scores after every token; channels that are not kept stay at their initial value."""
    start = model.initial_state()[0]
    state, scores = start.expand(len(tokens), *start.shape), []
    for column in tokens.unbind(1):
        state, said = model.step(
            state, column, lambda layer, h: torch.where(kept[layer], h, start[layer])
        )
        scores.append(said)
    return torch.stack(scores, dim=1)


@dataclass(frozen=True)
class Pruned:
    """A model with the channels in use; of a rotor, also the channels that rotate."""

    model: Any
    kept: Mask
    turning: Mask

    @classmethod
    def whole(cls, model: Stepwise) -> "Pruned":
        """Return a model with all of its channels."""
        layers, _, width = model.initial_state()[0].shape
        everything = torch.ones(layers, width, dtype=torch.bool)
        return cls(model, everything, everything)

    def __str__(self) -> str:
        kept, turning = int(self.kept.sum()), int((self.kept & self.turning).sum())
        return f"{kept} channels" + (f", {turning} rotating" if is_rotor(self.model) else "")

    @torch.no_grad()
    def freeze(self) -> None:
        """Change the rotor: hold channels at their initial value, or only stop their rotation."""
        for block, mine, turns in zip(
            self.model.blocks, self.kept, self.kept & self.turning, strict=True
        ):
            for rows in (block.angle.weight, block.angle.bias):
                rows.unflatten(0, (-1, len(turns)))[:, ~turns] = 0
            block.gate.weight[~mine] = 0
            block.gate.bias[~mine] = OPEN

    @torch.no_grad()
    def judge(self, examples: Labelled) -> Judgement:
        """Compare the scores after every token with the labels."""
        if not is_rotor(self.model):
            return examples.judge(follow(self.model, self.kept, examples.tokens))
        frozen = replace(self, model=copy.deepcopy(self.model))
        frozen.freeze()
        return examples.judge(frozen.model(examples.tokens))

    def prune(self, examples: Labelled) -> "Pruned":
        """Drop whole layers, then single channels, the least needed first.

        There may be no more errors, and the correct scores must keep a fraction of their margin.
        """
        rows = examples.first(PRUNING_ROWS)
        parts = [*self._layers(), *self._by_need("kept", rows)]
        return self._drop("kept", parts, [rows.first(GLANCE_ROWS), rows])

    def straighten(self, examples: Labelled) -> "Pruned":
        """Stop the rotation of all channels, layers or single channels, where the answers allow it."""
        turning = self.kept & self.turning
        parts = [torch.ones_like(turning), *self._layers(), *_channels(turning)]
        fewer = replace(self, model=copy.deepcopy(self.model), turning=turning)._drop(
            "turning", parts, [examples.first(PRUNING_ROWS)]
        )
        fewer.freeze()
        return fewer

    def thin(self, part: Part, examples: Labelled) -> "Pruned":
        """Drop the least needed third of the channels or rotations, whatever it does to the answers."""
        used = self.kept & getattr(self, part)
        order = self._by_need(part, examples)
        for one in order[: -(-len(order) // 3)]:
            used = used & ~one
        return replace(self, model=copy.deepcopy(self.model), **{part: used})

    def _layers(self) -> Iterable[Mask]:
        numbers = torch.arange(len(self.kept))[:, None]
        return ((numbers == layer).expand_as(self.kept) for layer in range(len(self.kept)))

    def _by_need(self, part: Part, examples: Labelled) -> list[Mask]:
        """Return the channels in use, each as a mask, sorted by the loss without it."""
        glance, used = examples.first(GLANCE_ROWS), self.kept & getattr(self, part)
        each = _channels(used)
        losses = [replace(self, **{part: used & ~one}).judge(glance).loss for one in each]
        return [each[i] for i in sorted(range(len(each)), key=losses.__getitem__)]

    def _drop(self, part: Part, masks: Iterable[Mask], over: Sequence[Labelled]) -> "Pruned":
        """Drop each mask from a part if the answers to all examples allow it."""
        now, before = self, [self.judge(each) for each in over]
        for mask in masks:
            fewer = replace(now, **{part: getattr(now, part) & ~mask})
            if not torch.equal(getattr(fewer, part), getattr(now, part)) and not any(
                fewer.judge(each).worse_than(old) for each, old in zip(over, before, strict=True)
            ):
                now = fewer
        return now


def _channels(used: Mask) -> list[Mask]:
    """Return each channel in use as a mask."""
    masks = []
    for place in used.nonzero().tolist():
        masks.append(torch.zeros_like(used))
        masks[-1][*place] = True
    return masks


def round_angles(rotor: Pruned, examples: Labelled) -> None:
    """Round the angles by which inputs rotate a channel to the coarsest fractions of a full turn.

    This applies to order 2 only, and to layers with few distinct inputs.
    """
    model: CSP = rotor.model
    if model.config.order != 2:
        return
    examples = examples.first(PRUNING_ROWS)
    before = rotor.judge(examples)
    for layer, turns in enumerate(rotor.kept & rotor.turning):
        inputs = _different(_inputs_of(model, layer, examples.tokens))  # (N, 2 D)
        if inputs is None:
            return
        inverse = torch.linalg.pinv(inputs)  # (2 D, N)
        angle = cast(RotorBlock, model.blocks[layer]).angle
        for channel in turns.nonzero()[:, 0].tolist():
            weights = angle.weight[channel].clone()
            angles = inputs @ weights + angle.bias[channel]
            for part in range(1, MOST_PARTS + 1):
                whole = 2 * math.pi / part
                angle.weight[channel] = weights + inverse @ ((angles / whole).round() * whole - angles)
                if not rotor.judge(examples).worse_than(before):
                    break
            else:
                angle.weight[channel] = weights


@torch.no_grad()
def _inputs_of(model: CSP, layer: int, tokens: Int64[Tensor, "N T"]) -> Float[Tensor, "R F"]:
    """Return all inputs of a layer."""
    if not layer:
        return model.rows.flatten(1)
    z, state = model.rows[tokens], model.initial_state(len(tokens))
    for number, block in enumerate(model.blocks[:layer]):
        z, _ = block(z, state[:, number])
    return z.flatten(2).flatten(0, 1)


def _different(inputs: Float[Tensor, "N F"]) -> Float[Tensor, "M F"] | None:
    """Return one input of each group of similar ones; None if there are too many groups."""
    groups = inputs[:1]
    while len(groups) <= MOST_DIFFERENT:
        far = torch.cdist(inputs, groups, p=torch.inf).amin(dim=1)
        if far.max() < ALIKE:
            return groups
        groups = torch.cat([groups, inputs[far.argmax()][None]])
    return None


def tune(rotor: Pruned, examples: Labelled, generator: Generator) -> None:
    """Train a rotor for some steps with frozen channels."""

    def loss(rows: Tensor) -> Tensor:
        return surprise(rotor.model(examples.tokens[rows]), examples.labels[rows])

    rotor.freeze()
    minimise(rotor.model, STEPS, loss, examples, generator, rotor.freeze)


def draw_in(
    model: Any,
    kept: Mask,
    codes: Sequence[Float[Tensor, "S M D"]],
    examples: Labelled,
    generator: Generator,
) -> None:
    """Train for some steps with snapped states; gradients ignore the snapping."""

    def loss(rows: Tensor) -> Tensor:
        start = model.initial_state()[0]
        state, scores, apart = start.expand(BATCH, *start.shape), [], []

        def snap(layer: int, h: Tensor) -> Tensor:
            h = torch.where(kept[layer], h, start[layer])
            code = codes[layer][nearest(h.detach(), codes[layer])[1][:, 0]]
            apart.append((h - code).square().sum(dim=(1, 2)).mean())
            return h + (code - h).detach()

        for column in examples.tokens[rows].unbind(1):
            state, said = model.step(state, column, snap)
            scores.append(said)
        return surprise(torch.stack(scores, dim=1), examples.labels[rows]) + torch.stack(apart).mean()

    minimise(model, DRAWING_STEPS, loss, examples, generator)


def surprise(scores: Float[Tensor, "B T C"], labels: Int64[Tensor, "B T"]) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=UNLABELLED)


def minimise(
    model: Any,
    steps: int,
    loss: Callable[[Tensor], Tensor],
    examples: Labelled,
    generator: Generator,
    after: Callable[[], None] = lambda: None,
) -> None:
    """Minimise a loss on random rows with Adam; the learning rate decreases to 0."""
    parameters = [each.requires_grad_() for each in model.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=RATE)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = RATE * (1 - step / steps)
        rows = torch.randint(len(examples.tokens), (BATCH,), generator=generator)
        optimizer.zero_grad()
        loss(rows).backward()
        try:
            descend(optimizer, parameters, CLIP_NORM)
        except FloatingPointError:
            break
        after()
    model.requires_grad_(False)
