"""Reading a run directory back."""

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
"""What a result has at least."""


def load(path: str | Path, task: Task | None = None) -> Trained:
    """What training wrote into a run directory.

    Args:
        task: that of the run; it must be given where it is one's own, which csprop has no name for.

    Raises:
        InputError: it is no run, it is damaged, or the task does not fit it.
    """
    folder = RunFolder(path)
    config = from_json(folder.path, folder.read_config())
    try:
        task = resolve(task or from_description(config.task))
    except InputError as error:
        own = "; a task of your own must be given, as in load(path, task=…)"
        raise InputError(f"{folder.path / checkpoint.CONFIG}: {error}{own}") from None
    if (len(task.vocab), len(task.classes)) != (config.model.vocab_size, config.model.num_classes):
        raise InputError(
            f"{folder.path / checkpoint.CONFIG}: the model does not fit the task {task.name!r}"
        )
    if not folder.has(checkpoint.WEIGHTS):
        lacks = checkpoint.WEIGHTS if folder.has(checkpoint.LAST) else "a finished epoch"
        raise InputError(
            f"{folder.path}: lacks {lacks}; `csprop train --resume --out {folder.path}` goes on with it"
        )
    try:
        model = network(config.model, safetensors.torch.load(folder.read(checkpoint.WEIGHTS)))
    except InputError:
        raise
    except (safetensors.SafetensorError, RuntimeError, LookupError, ValueError):
        raise InputError(
            f"{folder.path / checkpoint.WEIGHTS}: does not fit config.json; the run is damaged"
        ) from None
    if not all(bool(value.isfinite().all()) for value in model.parameters()):
        raise InputError(f"{folder.path / checkpoint.WEIGHTS}: has weights that are not finite")
    result = folder.read_json(checkpoint.RESULT) if folder.has(checkpoint.RESULT) else None
    if result is not None and not _is_result(result):
        raise InputError(f"{folder.path / checkpoint.RESULT}: is no result; the run is damaged")
    model.trained_as, model.names = config, names_of(task)
    return Trained(model.eval(), task, config, folder.read_metrics(), result, folder.path)


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
    """What a run directory says of itself."""
    folder = RunFolder(path)
    return from_json(folder.path, folder.read_config(verify=False))
