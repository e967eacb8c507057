"""The model of the authors' public code, whose angles add up over time, as a torch module."""

from dataclasses import replace
from typing import Any

from csprop import Certificate, certify
from csprop.errors import Diverged
from csprop.proof.examples import Labelled
from csprop.tasks import resolve
from csprop.training.batches import training_data
from csprop.training.config import RunConfig
from csprop.training.seeding import generator
from csprop.training.stored import Trained
from csprop_lab.released.config import UPLOADS, ReleasedConfig, upload
from csprop_lab.released.frames import Frame, NotRounded, round_angles
from csprop_lab.released.model import Released
from csprop_lab.training import train_module

__all__ = ["UPLOADS", "NotRounded", "Released", "ReleasedConfig", "prove", "train"]


def train(task: str, name: str = "released", seed: int = 0, **changes: Any) -> Trained:
    """Train the model of an upload as the authors do.

    Args:
        task: the task.
        name: one of `UPLOADS`: released, released-fast or released-first.
        seed: the seed of the data and of the weights.
        changes: options of the recipe.

    Raises:
        Diverged: training diverged.
    """
    known = resolve(task)
    model, recipe = upload(name, known)
    options: Any = {"model": model, "recipe": replace(recipe, **changes)}
    config = RunConfig(task=known.describe(), preset=name, seed=seed, **options)
    run = train_module(Released(model, generator(seed, "weights")), known, config, every_input=True)
    if isinstance(run, Diverged):
        raise run
    return run


def prove(run: Trained) -> tuple[Certificate, Frame]:
    """Round the angles of a trained model, and prove the rotor that they make.

    Raises:
        NotRounded: the model has not learned its data, or its angles do not count.
    """
    examples = Labelled.of(training_data(run.task, run.config)[0])
    rotor, frame = round_angles(run.model, examples)  # pyright: ignore[reportArgumentType]
    return certify(rotor, run.task, examples, rounds=0, progress=False), frame
