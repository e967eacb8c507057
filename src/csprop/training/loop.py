"""The training loop. Each epoch depends only on the state after the previous one.

Everything random in epoch e comes from a generator seeded by (seed, purpose, e), so that a run that was
interrupted continues exactly as if it had not been.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.optim import Optimizer

from csprop.data.examples import UNLABELLED, WINDOW, Examples, Steps
from csprop.errors import InputError
from csprop.nn.model import CSP
from csprop.nn.training import described, why_not
from csprop.ops.backends import backend
from csprop.ops.native.step import Descent, Loss, foreign, matches, take
from csprop.training.losses import loss
from csprop.training.metrics import score
from csprop.training.presets import Recipe
from csprop.training.schedule import learning_rate, longest, shortened, temperature
from csprop.training.seeding import generator

if TYPE_CHECKING:
    from csprop.training.distributed import Group

Epoch = dict[str, float | int]
"""One row of metrics.jsonl."""
Batch = list[tuple[Tensor, Tensor]]
"""The tokens and labels of one step, each (B, T); in several parts if the lengths are too different."""
MOST_PADDED = 1 << 16
"""Tokens of a batch, with its padding, up to which it is one part whatever the lengths are."""


class Diverged(RuntimeError):
    """A loss or a gradient was not finite; `diagnosis` says where. The step was not taken."""

    def __init__(self, message: str, diagnosis: dict[str, Any]) -> None:
        super().__init__(message)
        self.diagnosis = diagnosis


class Adam(torch.optim.Adam):
    """torch's Adam; to make one does not import torch's compiler, which takes longer than short runs.

    The method that is overridden would; where torch takes the steps, the first of them does.
    """

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters and the options that are theirs alone."""
        self.param_groups.append(self.defaults | param_group)


NOT_FINITE = "the loss is {} and the gradient norm {}; the step was not taken"


def descend(
    optimizer: Optimizer, parameters: Sequence[Tensor], clip_norm: float | None, value: float = 0.0
) -> float:
    """Take one optimiser step with the gradients that are set on the parameters.

    Args:
        optimizer: takes the step.
        parameters: the parameters, with their gradients.
        clip_norm: gradients with a larger norm are scaled down to it.
        value: the loss, which must be finite.

    Returns:
        The norm of the gradients before clipping.

    Raises:
        FloatingPointError: the loss or the norm is not finite; no step is taken.
    """
    norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    if not (math.isfinite(value) and math.isfinite(norm.item())):
        raise FloatingPointError(NOT_FINITE.format(value, norm.item()))
    if clip_norm is not None:
        nn.utils.clip_grads_with_norm_(parameters, clip_norm, norm)
    optimizer.step()
    return norm.item()


class Trainer:
    """A model in training, with the whole state on which the next epoch depends."""

    def __init__(
        self, model: CSP, training: Examples, held_out: Examples, recipe: Recipe, seed: int
    ) -> None:
        self.model, self.recipe, self.seed = model, recipe, seed
        self.training, self.held_out = training, held_out
        self.optimizer = Adam(
            model.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay, fused=True
        )
        self.scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
            self.optimizer, mode="max", factor=0.5, patience=recipe.patience
        )
        self.epoch = 0
        self.streak = 0  # consecutive epochs at the target
        self.best: Epoch = {}
        self.best_weights: dict[str, Tensor] = {}
        self.descent: Descent | None = None
        self.group: Group | None = None  # the processes that share the rows of every batch

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"descent": None}  # it points into memory; the next epoch makes it anew

    @property
    def target(self) -> float:
        """The held-out accuracy to reach."""
        return 1.0 if self.recipe.target is None else self.recipe.target

    @property
    def finished(self) -> bool:
        """Whether training is over: the target has held long enough, or this was the last epoch."""
        enough = self.recipe.hold and self.streak >= self.recipe.hold
        return bool(enough) or self.epoch >= self.recipe.epochs

    def run_epoch(self) -> Epoch:
        """Train on every example once, then evaluate on the held-out set.

        Raises:
            Diverged: a loss or a gradient was not finite.
        """
        (row,) = run_epochs([self])
        if isinstance(row, Diverged):
            raise row
        return row

    def begin_epoch(self) -> None:
        """Set the model as this epoch trains it, and lay it out for the kernel if that knows it."""
        self.model.train()
        for router in self.model.routers:
            router.temperature = temperature(self.recipe, self.epoch + 1)
        if self.recipe.schedule == "cosine":
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate(self.recipe, self.epoch + 1)
        self.descent = None
        if not why_not(self.model) and not foreign(model := described(self.model), self.optimizer):
            recipe = self.recipe
            loss = Loss(recipe.loss == "focal", recipe.focal_gamma, recipe.focal_alpha)
            # Where gradients are to be added up first, the kernel's own step must change nothing.
            alone = self.group is None
            optimizer = self.optimizer if alone else Adam(self.model.parameters(), lr=0.0)
            self.descent = Descent(model, optimizer, loss)

    def batches(self) -> Iterator[Batch]:
        """The tokens and labels of each step of the next epoch."""
        epoch = self.epoch + 1
        training = shortened(self.training, longest(self.recipe, epoch, self.training.longest))
        order = torch.randperm(len(training), generator=generator(self.seed, "order", epoch))
        cuts = generator(self.seed, "lengths", epoch)
        size = self.recipe.batch_size
        at_once = size * max(1, WINDOW // (size * max(1, training.longest)))
        for several in order.split(at_once):
            rows = training[several]
            if len(np.unique(rows.lengths)) == 1:  # many batches are padded as fast as one
                tokens, labels = self._given(rows, cuts)
                sizes = [len(self._own(torch.arange(len(batch)))) for batch in several.split(size)]
                pairs = zip(tokens.split(sizes), labels.split(sizes), strict=True)
                yield from ([pair] if len(pair[0]) else [] for pair in pairs)
                continue
            for batch in several.split(size):
                given, before = [], 0
                for part in training[batch].parts(MOST_PADDED):
                    given.append(self._given(part, cuts, before))
                    before += len(part)
                yield [pair for pair in given if len(pair[0])]

    def _own(self, places: Tensor) -> Tensor:
        """Those of the places of rows in a batch whose rows this process takes."""
        if self.group is None:
            return places
        return places[places % self.recipe.batch_size % self.group.size == self.group.rank]

    def _given(self, rows: Examples, cuts: Generator, before: int = 0) -> tuple[Tensor, Tensor]:
        """The tokens and labels of this process's rows, `before` rows of the batch being elsewhere."""
        drawn = self.recipe.lengths == "drawn"
        lots = torch.rand(len(rows), rows.longest, generator=cuts) if drawn else None
        if self.group is not None:
            own = self._own(torch.arange(before, before + len(rows))) - before
            rows = rows[own]
            lots = None if lots is None else lots[own, : rows.longest]
        steps = rows.padded()
        return steps.tokens, supervised(steps, self.recipe, lots) if len(rows) else steps.labels

    @property
    def clip_norm(self) -> float | None:
        """The largest norm of the gradients of this epoch, if there is one."""
        clips = self.epoch + 1 >= self.recipe.clip_from_epoch
        return self.recipe.clip_norm if clips else None

    def step(self, step: int, value: float) -> float:
        """Take a step with the gradients that are set on the parameters, and return their norm."""
        parameters = list(self.model.parameters())
        try:
            return descend(self.optimizer, parameters, self.clip_norm, value)
        except FloatingPointError as error:
            raise self.diverged(step, str(error)) from None

    def end_epoch(self, loss: float, grad_norm: float, started: float) -> Epoch:
        """Evaluate on the held-out set, update the learning rate, and return the epoch's metrics."""
        if self.group is not None:
            self.follow(self.group)  # other processors may round in other ways
        lr = self.optimizer.param_groups[0]["lr"]
        self.model.eval()
        held_out = score(self.model, self.held_out, self.group)
        if not math.isfinite(held_out.loss):
            steps = -(-len(self.training) // self.recipe.batch_size)
            raise self.diverged(steps, f"the held-out loss is {held_out.loss}")
        if self.recipe.schedule == "plateau":
            self.scheduler.step(held_out.accuracy)
        self.epoch += 1
        self.streak = self.streak + 1 if held_out.accuracy >= self.target else 0
        row: Epoch = {
            "epoch": self.epoch,
            "loss": loss,
            "accuracy": held_out.accuracy,
            "f1": held_out.f1,
            "held_out_loss": held_out.loss,
            "grad_norm": grad_norm,  # the epoch's largest, before clipping
            "lr": lr,
            "seconds": round(time.perf_counter() - started, 3),
        }
        if self.group is not None:
            row = self.group.of_first(row)  # which has other seconds
        self._keep_best(row)
        return row

    def diverged(self, step: int, found: str) -> Diverged:
        """The reason why training ends here."""
        epoch = self.epoch + 1
        parameters = {
            name: {
                "largest": float(parameter.detach().abs().max()),
                "gradient_finite": parameter.grad is not None and bool(parameter.grad.isfinite().all()),
            }
            for name, parameter in self.model.named_parameters()
        }
        return Diverged(
            f"epoch {epoch}, step {step}: {found}: try a smaller lr, or the decay exp or unit",
            {
                "epoch": epoch,
                "step": step,
                "found": found,
                "lr": self.optimizer.param_groups[0]["lr"],
                "recipe": asdict(self.recipe),
                "parameters": parameters,
            },
        )

    def _keep_best(self, row: Epoch) -> None:
        def rank(row: Epoch) -> tuple[float, float]:
            return row["accuracy"], -row["held_out_loss"]

        if not self.best or rank(row) > rank(self.best):
            self.best = row
            self.best_weights = {
                name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()
            }

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The tensors and plain values that `restore` needs."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in self.best_weights.items()}
        for name, parameter in self.model.named_parameters():
            for key, value in self.optimizer.state[parameter].items():
                tensors[f"adam.{key}.{name}"] = value
        values = {
            "epoch": self.epoch,
            "held": self.streak,
            "best": self.best,
            "lr": self.optimizer.param_groups[0]["lr"],
            "scheduler": self.scheduler.state_dict(),
        }
        return tensors, values

    def follow(self, group: "Group") -> None:
        """Take the state of the first process of a group, with which to share every batch."""
        self.group, state = group, group.of_first(self.state())
        if group.rank:
            self.restore(*state)

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Return to a state that `state` described."""
        self.model.load_state_dict(_under("model.", tensors))
        self.best_weights = _under("best.", tensors)
        adam = _under("adam.", tensors)
        for name, parameter in self.model.named_parameters():
            for key in ("step", "exp_avg", "exp_avg_sq"):
                if f"{key}.{name}" in adam:  # a parameter that is not trained has none
                    self.optimizer.state[parameter][key] = adam[f"{key}.{name}"]
            if self.optimizer.state[parameter] and not matches(
                self.optimizer.state[parameter], parameter
            ):
                raise InputError(f"the state of the optimiser does not fit the parameter {name}")
        self.epoch, self.streak, self.best = values["epoch"], values["held"], values["best"]
        self.optimizer.param_groups[0]["lr"] = values["lr"]
        self.scheduler.load_state_dict(values["scheduler"])


def run_epochs(trainers: Sequence[Trainer]) -> list[Epoch | Diverged]:
    """Run the next epoch of models that differ only in their seed, all of them step by step together.

    Returns:
        For each model its metrics, or the reason why it diverged.
    """
    started = time.perf_counter()
    totals, largest, counts = [0.0] * len(trainers), [0.0] * len(trainers), [0] * len(trainers)
    failed: dict[int, Diverged] = {}
    for trainer in trainers:
        trainer.begin_epoch()
    for step, batches in enumerate(zip_longest(*(trainer.batches() for trainer in trainers))):
        going = [i for i, batch in enumerate(batches) if batch is not None and i not in failed]
        if not going:
            break
        outcomes = take_steps([trainers[i] for i in going], [batches[i] for i in going], step)
        for i, outcome in zip(going, outcomes, strict=True):
            if isinstance(outcome, Diverged):
                failed[i] = outcome
                continue
            value, norm = outcome
            largest[i] = max(largest[i], norm)
            seen = sum(len(tokens) for tokens, _ in batches[i])
            totals[i] += value * seen
            counts[i] += seen
    rows: list[Epoch | Diverged] = []
    for i, trainer in enumerate(trainers):
        try:
            if i in failed:
                raise failed[i]
            total, count = totals[i], counts[i]
            if trainer.group is not None:
                sums = torch.tensor([total, count], dtype=torch.float64)
                total, count = trainer.group.total(sums).tolist()
            rows.append(trainer.end_epoch(total / max(1, count), largest[i], started))
        except Diverged as error:
            rows.append(error)
    return rows


def take_steps(
    trainers: Sequence[Trainer], batches: Sequence[Batch], step: int
) -> list[tuple[float, float] | Diverged]:
    """Take a step of each model: its loss and the norm of its gradients, or why it diverged."""
    outcomes: list[tuple[float, float] | Diverged] = []
    if trainers[0].group is not None:
        return [_take_shared(*each, step) for each in zip(trainers, batches, strict=True)]
    steps = [
        (trainer.descent, parts, math.inf if trainer.clip_norm is None else trainer.clip_norm)
        for trainer, parts in zip(trainers, batches, strict=True)
        if trainer.descent is not None
    ]
    if steps and len(steps) == len(trainers):
        for trainer, (value, norm, _, taken) in zip(trainers, take(steps), strict=True):
            found = (value, norm)
            outcomes.append(found if taken else trainer.diverged(step, NOT_FINITE.format(*found)))
        return outcomes
    for trainer, value in zip(trainers, _set_gradients(trainers, batches), strict=True):
        try:
            outcomes.append((value, trainer.step(step, value)))
        except Diverged as error:
            outcomes.append(error)
    return outcomes


def _take_shared(trainer: Trainer, parts: Batch, step: int) -> tuple[float, float] | Diverged:
    """Take a step with the gradients of all processes, of which each has some rows of the batch."""
    assert trainer.group is not None
    if trainer.descent is None:
        (value,) = _set_gradients([trainer], [parts])
    elif parts:
        value = take([(trainer.descent, parts, math.inf)])[0].loss
    else:
        value = 0.0
        trainer.descent.gradient.zero_()
    count = sum(int((labels != UNLABELLED).sum()) for _, labels in parts)
    trained = [each for each in trainer.model.parameters() if each.requires_grad]
    gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in trained]
    own = [torch.tensor([value, 1.0], dtype=torch.float64), *(each.flatten() for each in gradients)]
    sums = trainer.group.total(torch.cat(own) * count)
    sizes = [each.numel() for each in trained]
    means = (sums[2:] / sums[1]).split(sizes)
    for each, gradient, mean in zip(trained, gradients, means, strict=True):
        each.grad = gradient.copy_(mean.view_as(each))
    value = float(sums[0] / sums[1])
    try:
        return value, trainer.step(step, value)
    except Diverged as error:
        return error


def _set_gradients(trainers: Sequence[Trainer], batches: Sequence[Batch]) -> list[float]:
    """The loss of each model on its own batch; the gradients are set on its parameters."""
    recipe, models = trainers[0].recipe, [trainer.model for trainer in trainers]
    # Where short sequences come first, the seeds of a file do not have equally many.
    alike = len({tuple(len(tokens) for tokens, _ in parts) for parts in batches}) == 1
    alike = alike and len({tuple(p.requires_grad for p in model.parameters()) for model in models}) == 1
    together = len(models) > 1 and alike and not models[0].config.loops and backend() != "reference"
    if together and all(len(parts) == 1 for parts in batches):
        return _set_stacked_gradients(models, [parts[0] for parts in batches], recipe)
    values = []
    for model, parts in zip(models, batches, strict=True):
        model.zero_grad()
        counts = [int((labels != UNLABELLED).sum()) for _, labels in parts]
        total = 0.0
        for (tokens, labels), count in zip(parts, counts, strict=True):
            value = loss(model(tokens), labels, recipe) * (count / sum(counts))
            value.backward()
            total += value.item()
        values.append(total)
    return values


def _set_stacked_gradients(
    models: Sequence[CSP], batches: Sequence[tuple[Tensor, Tensor]], recipe: Recipe
) -> list[float]:
    """Compute all models in one call, with their parameters stacked along a new dimension."""
    longest = max(tokens.shape[1] for tokens, _ in batches)
    tokens = torch.stack([_padded(tokens, longest, 0) for tokens, _ in batches])
    labels = torch.stack([_padded(labels, longest, UNLABELLED) for _, labels in batches])
    names = [name for name, _ in models[0].named_parameters()]
    columns = zip(*(model.parameters() for model in models), strict=True)
    parameters = {
        name: torch.stack(column).detach() for name, column in zip(names, columns, strict=True)
    }
    for parameter, own in zip(parameters.values(), models[0].parameters(), strict=True):
        parameter.requires_grad_(own.requires_grad)

    def logits(parameters: dict[str, Tensor], tokens: Tensor) -> Tensor:
        return torch.func.functional_call(models[0], parameters, (tokens,))

    values = loss(torch.func.vmap(logits)(parameters, tokens), labels, recipe)
    values.sum().backward()
    for name, parameter in parameters.items():
        gradients = [None] * len(models) if parameter.grad is None else parameter.grad
        for model, gradient in zip(models, gradients, strict=True):
            model.get_parameter(name).grad = gradient
    return values.tolist()


def _padded(rows: Tensor, length: int, value: int) -> Tensor:
    return F.pad(rows, (0, length - rows.shape[1]), value=value)


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)
    }


def supervised(batch: Steps, recipe: Recipe, lots: Tensor | None) -> Tensor:
    """The labels to learn from, (B, T); all others are UNLABELLED.

    The model is causal, so learning from a prefix means learning from the steps up to its end. With
    lots, (B, T), a row ends with the labelled step that has the largest.
    """
    ends = batch.lengths
    if lots is not None:
        ends = lots.masked_fill(batch.labels == UNLABELLED, -1).argmax(dim=1) + 1
    steps = torch.arange(1, batch.labels.shape[1] + 1)
    outside = steps > ends[:, None] if recipe.supervise == "every" else steps != ends[:, None]
    return batch.labels.masked_fill(outside, UNLABELLED)
