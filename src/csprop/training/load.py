"""Reading a run directory."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from csprop.errors import InputError
from csprop.nn.config import CSPConfig
from csprop.nn.model import CSP
from csprop.tasks import from_description, resolve
from csprop.tasks.base import Task
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder
from csprop.training.config import RunConfig, from_json, names_of
from csprop.training.session import Trained

RESULTS = {"epochs", "first_epoch_at_target", "accuracy", "f1", "exhaustive"}
"""Fields that every result has."""


def load(path: str | Path, task: Task | None = None) -> Trained:
    """Read a trained model from a run directory.

    Args:
        path: the run directory.
        task: the task of the run. It is required for a task of your own, which csprop cannot find by
            its name.

    Raises:
        InputError: the directory is not a run or is damaged, or the task does not fit it.
    """
    folder = RunFolder(path)
    config = from_json(folder.path, folder.read_config())
    given, where = task, folder.path / checkpoint.CONFIG
    try:
        task = resolve(given or from_description(config.task, folder.path))
    except InputError as error:
        own = "; if the task is your own, pass it: load(path, task=…)"
        raise InputError(f"{where}: {error}{own}") from None
    if task.describe() != config.task:
        if given is None:
            raise InputError(f"{where}: the task is malformed; the run is damaged")
        raise InputError(
            f"{where}: the run was trained on {config.task['name']!r}, and not on this {task.name!r}"
        )
    if (len(task.vocab), len(task.classes)) != (config.model.vocab_size, config.model.num_classes):
        raise InputError(
            f"{folder.path / checkpoint.CONFIG}: the model does not fit the task {task.name!r}, which "
            f"has {len(task.vocab)} tokens and {len(task.classes)} classes"
        )
    if not folder.has(checkpoint.WEIGHTS):
        begun = folder.resumable and not folder.has(checkpoint.LAST)
        lacks = "completed epoch" if begun else checkpoint.WEIGHTS
        raise InputError(f"{folder.path}: has no {lacks}: {folder.way_on}")
    try:
        model = network(config.model, safetensors.torch.load(folder.read(checkpoint.WEIGHTS)))
    except InputError:
        raise
    except (safetensors.SafetensorError, RuntimeError, LookupError, ValueError):
        raise InputError(
            f"{folder.path / checkpoint.WEIGHTS}: does not fit config.json; the run is damaged"
        ) from None
    if not all(bool(value.isfinite().all()) for value in model.parameters()):
        raise InputError(
            f"{folder.path / checkpoint.WEIGHTS}: has weights that are not finite; the run is damaged"
        )
    result = folder.read_json(checkpoint.RESULT) if folder.has(checkpoint.RESULT) else None
    if result is not None and not _is_result(result):
        raise InputError(f"{folder.path / checkpoint.RESULT}: is malformed; the run is damaged")
    model.trained_as, model.names = config, names_of(task)
    environment = folder.read_config()["environment"]
    metrics = folder.read_metrics()
    return Trained(model.eval(), task, config, metrics, result, folder.path, environment)


def network(config: CSPConfig, weights: Mapping[str, Tensor]) -> CSP:
    """A model with these weights. It is not made before there are enough of them.

    Raises:
        ValueError, RuntimeError: they do not fit.
    """
    single = all(value.dtype == torch.float32 for value in weights.values())
    if not single or sum(value.numel() for value in weights.values()) < config.least_weights:
        raise ValueError("these are not the weights of such a model")
    model = CSP(config)
    model.load_state_dict(weights)
    return model


def _is_result(result: Any) -> bool:
    """Whether it has what is shown of a result, as numbers."""
    try:
        every = result["exhaustive"]
        shown = [result["accuracy"], result["f1"]]
        shown += [] if every is None else [every["wrong"], every["count"]]
        return result.keys() >= RESULTS and all(map(math.isfinite, shown))
    except (LookupError, TypeError, AttributeError, OverflowError):
        return False


def stored_config(path: str | Path) -> RunConfig:
    """The configuration in a run directory.

    Raises:
        InputError: the directory is not a run, or config.json is malformed.
    """
    folder = RunFolder(path)
    return from_json(folder.path, folder.read_config(verify=False))
