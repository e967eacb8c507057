"""Reading a run directory back."""

from pathlib import Path

import safetensors.torch

from csprop.errors import InputError
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
    model = CSP(config.model)
    if not folder.has(checkpoint.WEIGHTS):
        lacks = checkpoint.WEIGHTS if folder.has(checkpoint.LAST) else "a finished epoch"
        raise InputError(
            f"{folder.path}: lacks {lacks}; `csprop train --resume --out {folder.path}` goes on with it"
        )
    try:
        weights = safetensors.torch.load(folder.read(checkpoint.WEIGHTS))
        model.load_state_dict(weights)
    except (safetensors.SafetensorError, RuntimeError):
        raise InputError(
            f"{folder.path / checkpoint.WEIGHTS}: does not fit config.json; the run is damaged"
        ) from None
    if not all(bool(value.isfinite().all()) for value in weights.values()):
        raise InputError(f"{folder.path / checkpoint.WEIGHTS}: has weights that are not finite")
    result = folder.read_json(checkpoint.RESULT) if folder.has(checkpoint.RESULT) else None
    if result is not None and not (isinstance(result, dict) and result.keys() >= RESULTS):
        raise InputError(f"{folder.path / checkpoint.RESULT}: is no result; the run is damaged")
    model.trained_as, model.names = config, names_of(task)
    return Trained(model.eval(), task, config, folder.read_metrics(), result, folder.path)


def stored_config(path: str | Path) -> RunConfig:
    """What a run directory says of itself."""
    folder = RunFolder(path)
    return from_json(folder.path, folder.read_config(verify=False))
