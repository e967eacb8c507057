"""What a run directory says about its run, beside weights: read without torch."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from csprop.errors import InputError
from csprop.tasks import from_description, resolve
from csprop.tasks.base import Task
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder
from csprop.training.config import RunConfig, from_json

RESULTS = {"epochs", "first_epoch_at_target", "accuracy", "f1", "exhaustive"}
"""Fields that every result has."""


def stored_task(folder: RunFolder, task: Task | None = None) -> tuple[RunConfig, Task]:
    """The configuration and the task of a run that has weights.

    Args:
        folder: the run directory.
        task: the task of the run, if it is one of the user's own.

    Raises:
        InputError: the directory is not a run or is damaged, or the task does not fit it.
    """
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
            f"{where}: the model does not fit the task {task.name!r}, which has {len(task.vocab)} "
            f"tokens and {len(task.classes)} classes"
        )
    if not folder.has(checkpoint.WEIGHTS):
        begun = folder.resumable and not folder.has(checkpoint.LAST)
        lacks = "completed epoch" if begun else checkpoint.WEIGHTS
        raise InputError(f"{folder.path}: has no {lacks}: {folder.way_on}")
    return config, task


def stored_result(folder: RunFolder) -> dict[str, Any] | None:
    """The content of result.json; None if training is unfinished.

    Raises:
        InputError: it is malformed.
    """
    result = folder.read_json(checkpoint.RESULT) if folder.has(checkpoint.RESULT) else None
    if result is not None and not _is_result(result):
        raise InputError(f"{folder.path / checkpoint.RESULT}: is malformed; the run is damaged")
    return result


def made(result: Mapping[str, Any] | None) -> Literal["trained", "learned", "compiled"]:
    """How a model came about; one that was not trained has a machine written into its weights."""
    if result is None or result["epochs"]:
        return "trained"
    return "learned" if "learned" in result else "compiled"


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
