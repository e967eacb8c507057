"""The numbers of `csprop demo`: csprop's model beside an LSTM and the printed one, and its proofs."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from csprop.proof.certificate import Certificate
from csprop.runs.run import Run
from csprop.runs.training import train
from csprop.tasks import get
from csprop.training.batches import training_data
from csprop.training.config import configure
from csprop.training.loop import Epoch, Trainer
from csprop.training.metrics import at_length
from csprop.training.scores import Sampling, percent
from csprop.training.seeding import generator
from csprop.training.workers import pool

LENGTHS = (16, 256, 65_536)
"""The trained length, and longer ones."""
SAMPLING = Sampling(tokens=1 << 21, fewest=1, most=1000)
"""The number of random sequences tried at a length; the same for all models."""
WIDTH = 32
"""Width of the LSTM."""
MOST_EPOCHS, HOLD = 100, 3
"""The LSTM and the printed model are trained until all held-out answers have been right for three
epochs, or for a hundred."""
TRAINED, LOCKED, LSTM, PRINTED = "csprop, trained", "csprop, locked", "LSTM", "printed model"

Tell = Callable[[str, bool], None]
"""A callback for progress: a description of the work, and True if a part of it is done."""


@dataclass(frozen=True)
class Measured:
    """The accuracy of a model by length, and the training that it took."""

    accuracy: dict[int, float]
    epochs: int
    held_out: float
    """The accuracy on held-out sequences of the trained length, after the best epoch."""
    seconds: float

    def __str__(self) -> str:
        times = "epoch" if self.epochs == 1 else "epochs"
        return f"{percent(self.held_out)} of held-out answers after {self.epochs} {times}"


@dataclass(frozen=True)
class Proof:
    """The certificate of a run, and the accuracy of its locked model by length, if there is one."""

    certificate: Certificate
    accuracy: dict[int, float]
    seconds: float


def learn(
    tasks: Sequence[str], out: Path, tell: Tell, seed: int = 0
) -> tuple[dict[str, Run], dict[str, dict[str, Measured]]]:
    """Train three models on each task, from the same sequences, and measure all on the same others.

    `tell` gets three parts for each task. The results are csprop's run on each task, which is written
    to `out`, and the models by task and name.
    """
    runs: dict[str, Run] = {}
    models: dict[str, dict[str, Measured]] = {task: {} for task in tasks}
    printed: Any = {"preset": "paper", "split": "disjoint", "epochs": MOST_EPOCHS, "hold": HOLD}
    with pool(1, "run the same command again") as executor:
        others = {task: executor.submit(lstm, task, seed) for task in tasks}
        for task in tasks:
            runs[task], models[task][TRAINED] = _train(task, seed, tell, "csprop", out=out / task)
        for task in tasks:
            _, models[task][PRINTED] = _train(task, seed, tell, PRINTED, **printed)
        for task in tasks:
            tell(f"{task}, {LSTM}", False)
            models[task][LSTM] = others[task].result()
            tell(f"{task}, {LSTM}: {models[task][LSTM]}", True)
    return runs, models


def lock(runs: dict[str, Run], tell: Tell, seed: int = 0) -> dict[str, Proof]:
    """Lock each model and prove it; the progress has a part for each."""
    proofs = {}
    for task, run in runs.items():
        tell(task, False)
        started = time.perf_counter()
        certificate = run.certify(progress=False)
        seconds = time.perf_counter() - started
        accuracy = {} if run.locked is None else _measure(run.locked, task, seed)
        proofs[task] = Proof(certificate, accuracy, seconds)
        tell(f"{task}: {certificate.verdict}", True)
    return proofs


def lstm(task: str, seed: int) -> Measured:
    """Train an LSTM of one layer, as wide as csprop's model, by its recipe."""
    torch.set_num_threads(1)
    started, known, config = time.perf_counter(), get(task), configure(task, None, seed)
    config = replace(config, recipe=replace(config.recipe, epochs=MOST_EPOCHS, hold=HOLD))
    model: Any = _LSTM(len(known.vocab), len(known.classes), generator(seed, "weights"))
    trainer = Trainer(model, *training_data(known, config), config.recipe, seed)
    while not trainer.finished:
        trainer.run_epoch()
    seconds = round(time.perf_counter() - started, 2)
    model.load_state_dict(trainer.best_weights)
    accuracy = _measure(model.eval(), task, seed)
    return Measured(accuracy, trainer.epoch, trainer.best["accuracy"], seconds)


class _LSTM(nn.Module):
    """An embedding, torch's LSTM and a linear decoder: tokens (B, T) to scores (B, T, classes)."""

    routers = ()  # the training loop cools those of csprop's models

    def __init__(self, tokens: int, classes: int, generator: Generator) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):  # torch's layers draw from the global generator
            torch.manual_seed(generator.initial_seed())
            self.embedding = nn.Embedding(tokens, WIDTH)
            self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
            self.decoder = nn.Linear(WIDTH, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.decoder(self.lstm(self.embedding(tokens))[0])


def _train(task: str, seed: int, tell: Tell, name: str, **options: Any) -> tuple[Run, Measured]:
    def on_epoch(row: Epoch) -> None:
        tell(f"{task}, {name}: epoch {row['epoch']}, {percent(row['accuracy'])}", False)

    started = time.perf_counter()
    run = train(task, seed=seed, progress=False, on_epoch=on_epoch, as_trained=True, **options)
    seconds = round(time.perf_counter() - started, 2)
    assert run.result is not None
    accuracy = _measure(run.model, task, seed)
    measured = Measured(accuracy, run.result.epochs, run.result.accuracy, seconds)
    tell(f"{task}, {name}: {measured}", True)
    return run, measured


def _measure(model: Any, task: str, seed: int) -> dict[int, float]:
    known = get(task)
    return {length: at_length(model, known, length, seed, SAMPLING).accuracy for length in LENGTHS}
