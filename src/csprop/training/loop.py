"""The training loop: one epoch at a time, each a function of the last epoch's state alone.

Everything random in epoch e comes from a generator seeded by (seed, purpose, e), so a run that was
stopped goes on exactly as if it had not been.
"""

import hashlib
import math
import time
from dataclasses import asdict
from typing import Any

import torch
from torch import Generator, Tensor, nn

from csprop.nn.model import CSP
from csprop.tasks.base import UNLABELLED, Examples
from csprop.training.losses import loss
from csprop.training.metrics import score
from csprop.training.presets import Recipe

Row = dict[str, float | int]


class Diverged(RuntimeError):
    """A loss or gradient was not finite; the step was not taken."""

    def __init__(self, message: str, diagnosis: dict[str, Any]) -> None:
        super().__init__(message)
        self.diagnosis = diagnosis


def generator(seed: int, purpose: str, epoch: int = 0) -> Generator:
    """A random generator of its own for every use."""
    digest = hashlib.sha256(f"{seed}/{purpose}/{epoch}".encode()).digest()
    return Generator().manual_seed(int.from_bytes(digest[:8], "big"))


class Trainer:
    """A model in training, with everything that the next epoch depends on."""

    def __init__(
        self, model: CSP, training: Examples, held_out: Examples, recipe: Recipe, seed: int
    ) -> None:
        self.model, self.recipe, self.seed = model, recipe, seed
        self.training, self.held_out = training, held_out
        self.optimizer = torch.optim.Adam(model.parameters(), lr=recipe.lr, fused=True)
        self.scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
            self.optimizer, mode="max", factor=0.5, patience=recipe.patience
        )
        self.epoch = 0
        self.held = 0  # epochs in a row at the target
        self.best: Row = {}
        self.best_weights: dict[str, Tensor] = {}

    @property
    def target(self) -> float:
        return 1.0 if self.recipe.target is None else self.recipe.target

    @property
    def finished(self) -> bool:
        enough = self.recipe.hold and self.held >= self.recipe.hold
        return bool(enough) or self.epoch >= self.recipe.epochs

    def run_epoch(self) -> Row:
        """Train on every example once, then score the held-out part."""
        started, epoch = time.perf_counter(), self.epoch + 1
        lr = self.optimizer.param_groups[0]["lr"]
        order = torch.randperm(len(self.training), generator=generator(self.seed, "order", epoch))
        cuts = generator(self.seed, "lengths", epoch)
        total, largest = 0.0, 0.0
        for step, rows in enumerate(order.split(self.recipe.batch_size)):
            value, norm = self._step(self.training[rows], epoch, step, cuts)
            total += value * len(rows)
            largest = max(largest, norm)
        held_out = score(self.model, self.held_out)
        if not math.isfinite(held_out.loss):
            raise self._diverged(epoch, len(order), f"the held-out loss is {held_out.loss}")
        self.scheduler.step(held_out.accuracy)
        self.epoch = epoch
        self.held = self.held + 1 if held_out.accuracy >= self.target else 0
        row: Row = {
            "epoch": epoch,
            "loss": total / len(self.training),
            "accuracy": held_out.accuracy,
            "f1": held_out.f1,
            "held_out_loss": held_out.loss,
            "grad_norm": largest,  # the epoch's largest, before clipping
            "lr": lr,
            "seconds": round(time.perf_counter() - started, 3),
        }
        self._keep_best(row)
        return row

    def _step(self, batch: Examples, epoch: int, step: int, cuts: Generator) -> tuple[float, float]:
        batch = batch.trimmed()
        labels = supervised(batch, self.recipe, cuts)
        self.optimizer.zero_grad()
        value = loss(self.model(batch.tokens), labels, self.recipe)
        value.backward()
        parameters = list(self.model.parameters())
        norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        if not (math.isfinite(value.item()) and math.isfinite(norm.item())):
            found = f"the loss is {value.item()} and the gradient norm {norm.item()}"
            raise self._diverged(epoch, step, f"{found}; the step was not taken")
        if epoch >= self.recipe.clip_from_epoch:
            nn.utils.clip_grads_with_norm_(parameters, self.recipe.clip_norm, norm)
        self.optimizer.step()
        return value.item(), norm.item()

    def _diverged(self, epoch: int, step: int, found: str) -> Diverged:
        parameters = {
            name: {
                "largest": float(parameter.detach().abs().max()),
                "gradient_finite": parameter.grad is not None and bool(parameter.grad.isfinite().all()),
            }
            for name, parameter in self.model.named_parameters()
        }
        return Diverged(
            f"epoch {epoch}, step {step}: {found}: try a smaller lr, or decay='exp' or 'unit'",
            {
                "epoch": epoch,
                "step": step,
                "found": found,
                "lr": self.optimizer.param_groups[0]["lr"],
                "recipe": asdict(self.recipe),
                "parameters": parameters,
            },
        )

    def _keep_best(self, row: Row) -> None:
        def rank(row: Row) -> tuple[float, float]:
            return row["accuracy"], -row["held_out_loss"]

        if not self.best or rank(row) > rank(self.best):
            self.best = row
            self.best_weights = {
                name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()
            }

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain values from which `restore` goes on."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in self.best_weights.items()}
        for name, parameter in self.model.named_parameters():
            for key, value in self.optimizer.state[parameter].items():
                tensors[f"adam.{key}.{name}"] = value
        values = {
            "epoch": self.epoch,
            "held": self.held,
            "best": self.best,
            "lr": self.optimizer.param_groups[0]["lr"],
            "scheduler": self.scheduler.state_dict(),
        }
        return tensors, values

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self.model.load_state_dict(_under("model.", tensors))
        self.best_weights = _under("best.", tensors)
        adam = _under("adam.", tensors)
        for name, parameter in self.model.named_parameters():
            for key in ("step", "exp_avg", "exp_avg_sq"):
                self.optimizer.state[parameter][key] = adam[f"{key}.{name}"]
        self.epoch, self.held, self.best = values["epoch"], values["held"], values["best"]
        self.optimizer.param_groups[0]["lr"] = values["lr"]
        self.scheduler.load_state_dict(values["scheduler"])


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)
    }


def supervised(batch: Examples, recipe: Recipe, cuts: Generator) -> Tensor:
    """The labels to learn from, (B, T), UNLABELLED elsewhere.

    The model is causal, so that learning from a prefix alone is learning from the steps up to its end.
    """
    ends = batch.lengths
    if recipe.lengths == "drawn":  # one of the labelled steps, each as likely as any other
        lots = torch.rand(batch.labels.shape, generator=cuts)
        ends = lots.masked_fill(batch.labels == UNLABELLED, -1).argmax(dim=1) + 1
    steps = torch.arange(1, batch.labels.shape[1] + 1)
    outside = steps > ends[:, None] if recipe.supervise == "every" else steps != ends[:, None]
    return batch.labels.masked_fill(outside, UNLABELLED)
