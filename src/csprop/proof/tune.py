"""Further training of a model towards a finite set of states.

A soft gate σ(δ) is never exactly 0 or 1, so a rotor's state shrinks slightly at every step, and its
states never form a finite set. Doubling the gate's weights brings it closer to 0 or 1, and some steps
of training on the same data repair the answers. (A gate with `decay="switch"` is 0 or 1 already.)

A pruned channel stays at its initial value: its angles are 0 and its gate is open. A channel that need
not rotate has angles of 0 too: it only stores the last value written to it, which is exact.

Other models are trained with their states snapped to the codes of a search, with a penalty on
the snapping distance.
"""

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Generator, Tensor

from csprop.cells.rotor import RotorBlock
from csprop.data.examples import UNLABELLED
from csprop.nn.model import CSP
from csprop.proof.examples import Judgement, Labelled
from csprop.proof.locked import nearest
from csprop.proof.prune import PRUNING_ROWS
from csprop.training.steps import descend

STEPS, BATCH, RATE, CLIP_NORM = 150, 64, 3e-3, 1.0
DRAWING_STEPS = 60
MOST_PARTS = 8
MOST_DIFFERENT, ALIKE = 64, 0.2
OPEN = 40.0
"""σ(40) is 1 in float32 and in float64."""


def is_rotor(model: object) -> TypeGuard[CSP]:
    """Return True if every layer rotates its state, with an angle and a gate for each channel."""
    if not isinstance(model, CSP):
        return False
    return all(type(block) is RotorBlock for block in model.layers)


@torch.no_grad()
def freeze(model: CSP, kept: Bool[Tensor, "L D"], turning: Bool[Tensor, "L D"]) -> None:
    """Hold the channels that are not kept at their initial value; let only `turning` ones rotate."""
    for block, mine, turns in zip(model.blocks, kept, kept & turning, strict=True):
        assert isinstance(block, RotorBlock)
        for rows in (block.angle.weight, block.angle.bias):
            rows.unflatten(0, (-1, len(turns)))[:, ~turns] = 0
        block.gate.weight[~mine] = 0
        block.gate.bias[~mine] = OPEN


@torch.no_grad()
def frozen_scores(
    model: CSP,
    kept: Bool[Tensor, "L D"],
    turning: Bool[Tensor, "L D"],
    tokens: Int64[Tensor, "N T"],
) -> Float[Tensor, "N T C"]:
    """The scores after every token with some channels frozen."""
    model = copy.deepcopy(model)
    freeze(model, kept, turning)
    return model(tokens)


def straighten(
    model: CSP, kept: Bool[Tensor, "L D"], turning: Bool[Tensor, "L D"], examples: Labelled
) -> Bool[Tensor, "L D"]:
    """Stop the rotation of all channels that the answers allow, and change the model accordingly.

    First all channels are tried together, then whole layers, then single channels.

    Returns:
        The channels that still rotate.
    """
    examples = examples.first(PRUNING_ROWS)

    def judged(turning: Bool[Tensor, "L D"]) -> Judgement:
        return examples.judge(frozen_scores(model, kept, turning, examples.tokens))

    before = judged(turning)
    everything = [(slice(None), slice(None))]
    layers = [(layer, slice(None)) for layer in range(len(kept))]
    for layer, channel in everything + layers + (kept & turning).nonzero().tolist():
        fewer = turning.clone()
        fewer[layer, channel] = False
        if not torch.equal(kept & fewer, kept & turning) and not judged(fewer).worse_than(before):
            turning = fewer
    freeze(model, kept, turning)
    return turning


def round_angles(
    model: CSP, kept: Bool[Tensor, "L D"], turning: Bool[Tensor, "L D"], examples: Labelled
) -> None:
    """Round the angles by which inputs rotate a channel to fractions of a full turn, layer by layer.

    The coarsest fractions (halves, thirds, …) that do not harm the answers are chosen. This applies to
    order 2 only, and to layers with few distinct inputs.
    """
    if model.config.order != 2:
        return
    examples = examples.first(PRUNING_ROWS)
    before = examples.judge(frozen_scores(model, kept, turning, examples.tokens))
    for layer, turns in enumerate(kept & turning):
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
                if not examples.judge(frozen_scores(model, kept, turning, examples.tokens)).worse_than(
                    before
                ):
                    break
            else:
                angle.weight[channel] = weights


@torch.no_grad()
def _inputs_of(model: CSP, layer: int, tokens: Int64[Tensor, "N T"]) -> Float[Tensor, "R F"]:
    """All inputs of a layer."""
    if not layer:
        return model.rows.flatten(1)
    z, state = model.rows[tokens], model.initial_state(len(tokens))
    for number, block in enumerate(model.blocks[:layer]):
        z, _ = block(z, state[:, number])
    return z.flatten(2).flatten(0, 1)


def _different(inputs: Float[Tensor, "N F"]) -> Float[Tensor, "M F"] | None:
    """One input of each group of similar ones; None if there are too many groups."""
    groups = inputs[:1]
    while len(groups) <= MOST_DIFFERENT:
        far = torch.cdist(inputs, groups, p=torch.inf).amin(dim=1)
        if far.max() < ALIKE:
            return groups
        groups = torch.cat([groups, inputs[far.argmax()][None]])
    return None


def tune(
    model: CSP,
    kept: Bool[Tensor, "L D"],
    turning: Bool[Tensor, "L D"],
    examples: Labelled,
    generator: Generator,
) -> None:
    """Train for some steps with frozen channels; the learning rate decreases to 0."""

    def loss(rows: Tensor) -> Tensor:
        return surprise(model(examples.tokens[rows]), examples.labels[rows])

    freeze(model, kept, turning)
    minimise(model, STEPS, loss, examples, generator, lambda: freeze(model, kept, turning))


def draw_in(
    model: Any,
    kept: Bool[Tensor, "L D"],
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
