"""Further training of a model towards a finite set of states.

A rotor is trained further with fewer channels. Other models are trained with their states snapped to
the codes of a search, with a penalty on the snapping distance.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Generator, Tensor

from csprop.data.examples import UNLABELLED
from csprop.progress import check_time
from csprop.proof.examples import Labelled
from csprop.proof.locked import nearest
from csprop.training.pruned import Mask, Pruned
from csprop.training.steps import descend

STEPS, BATCH, RATE, CLIP_NORM = 150, 64, 3e-3, 1.0
DRAWING_STEPS = 60


def tune(rotor: Pruned, examples: Labelled, generator: Generator) -> None:
    """Train a rotor for some steps with frozen channels."""

    def loss(rows: Tensor) -> Tensor:
        return surprise(rotor.model(examples.tokens[rows]), examples.labels[rows])

    rotor.freeze()
    for each in rotor.model.buffers():
        each.zero_()  # angles are free until they are rounded again
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
        check_time()
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
