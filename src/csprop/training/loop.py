"""The training loop. Each epoch depends only on the state after the previous one.

Everything random in epoch e comes from a generator seeded by (seed, purpose, e). A run that was
interrupted therefore continues exactly as if it had not been.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from csprop.data.examples import Examples
from csprop.errors import Diverged, InputError
from csprop.nn.model import CSP
from csprop.ops.native.step import Descent, matches, take
from csprop.progress import Epoch
from csprop.training.batches import Batch, batches_of_epoch
from csprop.training.metrics import score
from csprop.training.presets import Recipe
from csprop.training.seeding import generator
from csprop.training.steps import Adam, descend, kernel_step, not_finite, set_gradients


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
        self.scheduler = self._make_scheduler()
        self.epoch = 0
        self.streak = 0  # consecutive epochs at the target
        self.best: Epoch = {}
        self.best_weights: dict[str, Tensor] = {}
        self.step: Descent | None = None  # of the compiled kernel, if it knows the model

    def _make_scheduler(self) -> torch.optim.lr_scheduler.ReduceLROnPlateau:
        return torch.optim.lr_scheduler.ReduceLROnPlateau(
            self.optimizer, mode="max", factor=0.5, patience=self.recipe.patience
        )

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"step": None}  # it points into memory; the next epoch makes another

    @property
    def target(self) -> float:
        """The held-out accuracy to reach."""
        return 1.0 if self.recipe.target is None else self.recipe.target

    @property
    def finished(self) -> bool:
        """True if the target has held long enough, or this was the last epoch."""
        enough = 0 < self.recipe.hold <= self.streak
        enough |= self.restarts and self.best["accuracy"] >= self.target
        return enough or self.epoch >= self.recipe.epochs

    @property
    def restarts(self) -> bool:
        """True if an attempt has just ended."""
        return self.epoch > 0 == self.epoch % (self.recipe.restart or self.epoch + 1)

    def run_epoch(self) -> Epoch:
        """Train on every example once, then evaluate on the held-out set."""
        (row,) = run_epochs([self])
        if isinstance(row, Diverged):
            raise row
        return row

    def begin_epoch(self) -> None:
        """Prepare the model for this epoch, and choose between the steps of the kernel and of torch."""
        if self.restarts:
            self.model.reset_parameters(generator(self.seed, "weights", self.epoch))
            self.optimizer.state.clear()
            self.optimizer.param_groups[0]["lr"] = self.recipe.lr
            self.scheduler = self._make_scheduler()
        self.model.train()
        for router in self.model.routers:
            router.temperature = self.recipe.temperature(self.epoch + 1)
        if self.recipe.schedule == "cosine":
            for group in self.optimizer.param_groups:
                group["lr"] = self.recipe.cosine_lr(self.epoch + 1)
        self.step = kernel_step(self.model, self.optimizer, self.recipe)

    def batches(self) -> Iterator[Batch]:
        """Yield the tokens and labels of each step of the next epoch."""
        return batches_of_epoch(self.recipe, self.seed, self.epoch + 1, self.training)

    @property
    def clip_norm(self) -> float:
        """The largest norm of the gradients of this epoch."""
        clips = self.recipe.within(self.epoch + 1) >= self.recipe.clip_from_epoch
        return self.recipe.clip_norm if clips else math.inf

    def end_epoch(self, total: float, rows: int, grad_norm: float, started: float) -> Epoch | Diverged:
        """Evaluate on the held-out set, update the learning rate, and return the epoch's metrics."""
        lr = self.optimizer.param_groups[0]["lr"]
        self.model.eval()
        held_out = score(self.model, self.held_out)
        if not math.isfinite(held_out.loss):
            steps = -(-len(self.training) // self.recipe.batch_size)
            return self.diverged(steps, f"the held-out loss is {held_out.loss}")
        if self.recipe.schedule == "plateau":
            self.scheduler.step(held_out.accuracy)
        self.epoch += 1
        self.streak = self.streak + 1 if held_out.accuracy >= self.target else 0
        row: Epoch = {
            "epoch": self.epoch,
            "loss": total / max(1, rows),
            "accuracy": held_out.accuracy,
            "f1": held_out.f1,
            "held_out_loss": held_out.loss,
            "grad_norm": grad_norm,  # the epoch's largest, before clipping
            "lr": lr,
            "seconds": round(time.perf_counter() - started, 3),
        }
        self._keep_best(row)
        return row

    def diverged(self, step: int, reason: str) -> Diverged:
        """Return the reason why training ends here."""
        epoch = self.epoch + 1
        parameters = {
            name: {
                "largest": float(parameter.detach().abs().max()),
                "gradient_finite": parameter.grad is not None and bool(parameter.grad.isfinite().all()),
            }
            for name, parameter in self.model.named_parameters()
        }
        return Diverged(
            f"epoch {epoch}, step {step}: {reason}: try a smaller lr, or the decay exp or unit",
            {
                "seed": self.seed,
                "epoch": epoch,
                "step": step,
                "found": reason,
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
        """Return the tensors and other values that `restore` needs."""
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

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Return to a state that `state` described."""
        self.model.load_state_dict(_under("model.", tensors))
        self.best_weights = _under("best.", tensors)
        adam = _under("adam.", tensors)
        for name, parameter in self.model.named_parameters():
            for key in ("step", "exp_avg", "exp_avg_sq"):
                if f"{key}.{name}" in adam:  # a parameter that is not trained has none
                    self.optimizer.state[parameter][key] = adam[f"{key}.{name}"]
            moments = self.optimizer.state[parameter]
            if moments and not matches(moments, parameter):
                raise InputError(f"the state of the optimiser does not fit the parameter {name}")
        self.epoch, self.streak, self.best = values["epoch"], values["held"], values["best"]
        self.optimizer.param_groups[0]["lr"] = values["lr"]
        self.scheduler.load_state_dict(values["scheduler"])


def run_epochs(trainers: Sequence[Trainer]) -> list[Epoch | Diverged]:
    """Run the next epoch of models that differ only in their seed, step by step together."""
    started = time.perf_counter()
    totals, largest, counts = [0.0] * len(trainers), [0.0] * len(trainers), [0] * len(trainers)
    failed: dict[int, Diverged] = {}
    for trainer in trainers:
        trainer.begin_epoch()
    for number, batches in enumerate(zip_longest(*(trainer.batches() for trainer in trainers))):
        going = [i for i, batch in enumerate(batches) if batch is not None and i not in failed]
        if not going:
            break
        outcomes = take_steps([trainers[i] for i in going], [batches[i] for i in going])
        for i, outcome in zip(going, outcomes, strict=True):
            if isinstance(outcome, FloatingPointError):
                failed[i] = trainers[i].diverged(number, str(outcome))
                continue
            value, norm = outcome
            largest[i] = max(largest[i], norm)
            rows = sum(len(tokens) for tokens, _ in batches[i])
            totals[i] += value * rows
            counts[i] += rows
    return [
        failed[i] if i in failed else trainer.end_epoch(totals[i], counts[i], largest[i], started)
        for i, trainer in enumerate(trainers)
    ]


def take_steps(
    trainers: Sequence[Trainer], batches: Sequence[Batch]
) -> list[tuple[float, float] | FloatingPointError]:
    """Take a step of each model: in one call of the kernel if it knows all, else one after the other.

    Each has a loss and the norm of its gradients, or an error if one was not finite.
    """
    steps = [
        (each.step, batch, each.clip_norm)
        for each, batch in zip(trainers, batches, strict=True)
        if each.step is not None
    ]
    if len(steps) == len(trainers):
        return [
            (each.loss, each.norm) if each.taken else not_finite(each.loss, each.norm)
            for each in take(steps)
        ]
    outcomes: list[tuple[float, float] | FloatingPointError] = []
    for trainer, batch in zip(trainers, batches, strict=True):
        try:
            value = set_gradients(trainer.model, batch, trainer.recipe)
            parameters = list(trainer.model.parameters())
            norm = descend(trainer.optimizer, parameters, trainer.clip_norm, value)
            outcomes.append((value, norm))
        except FloatingPointError as error:
            outcomes.append(error)
    return outcomes


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)
    }
