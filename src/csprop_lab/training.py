"""Training of models that are not csprop's, by csprop's loop."""

from typing import Any

from csprop.errors import Diverged
from csprop.tasks import Task
from csprop.training.batches import training_data
from csprop.training.config import RunConfig
from csprop.training.loop import Epoch, Trainer
from csprop.training.metrics import finish
from csprop.training.stored import Trained


def train_module(model: Any, task: Task, config: RunConfig, every_input: bool) -> Trained | Diverged:
    """Train a torch module from tokens (B, T) to scores (B, T, classes)."""
    trainer = Trainer(model, *training_data(task, config), config.recipe, config.seed)
    metrics: list[Epoch] = []
    while not trainer.finished:
        try:
            metrics.append(trainer.run_epoch())
        except Diverged as error:
            return error
    return finish(trainer, task, config, metrics, every_input)
