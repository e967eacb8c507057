"""Reading what a run directory stores. Everything but the weights is read without torch."""

from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

from csprop.errors import InputError
from csprop.tasks import from_description, resolve
from csprop.tasks.base import Task
from csprop.tasks.rows import FileTask
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder
from csprop.training.config import RunConfig, from_json, names_of
from csprop.training.result import Result

if TYPE_CHECKING:
    from torch import Tensor

    from csprop.nn.config import CSPConfig
    from csprop.nn.model import CSP
    from csprop.training.session import Trained


def stored_config(path: str | Path) -> RunConfig:
    """Return the configuration in a run directory.

    Raises:
        InputError: the directory is not a run, or config.json is malformed.
    """
    folder = RunFolder(path)
    return from_json(folder.path, folder.read_config(verify=False))


def stored_task(folder: RunFolder, task: Task | None = None) -> tuple[RunConfig, Task]:
    """Return the configuration and the task of a run that has weights.

    Args:
        folder: the run directory.
        task: the task of the run, if it is one of the user's own.

    Raises:
        InputError: the directory is not a run or is damaged, or the task does not fit it.
    """
    config = from_json(folder.path, folder.read_config())
    own, where = task, folder.path / checkpoint.CONFIG
    try:
        task = resolve(own or from_description(config.task, folder.path))
    except InputError as error:
        hint = "; if the task is your own, pass it: load(path, task=…)"
        raise InputError(f"{where}: {error}{hint}") from None
    if task.describe() != config.task:
        if own is None:
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


def stored_result(folder: RunFolder) -> Result | None:
    """Return the content of result.json; None if training is unfinished.

    Raises:
        InputError: it is malformed.
    """
    if not folder.has(checkpoint.RESULT):
        return None
    try:
        return Result.from_json(folder.read_json(checkpoint.RESULT))
    except InputError:
        raise
    except ValueError:
        path = folder.path / checkpoint.RESULT
        raise InputError(f"{path}: is malformed; the run is damaged") from None


def within(task: Task, folder: Path) -> Task:
    """Return the task of a run in this directory.

    The path of rows that csprop wrote into it is stored relative to it: the directory can be moved.
    """
    if isinstance(task, FileTask):
        task = copy(task)
        inside = task.path == (folder / checkpoint.ROWS).absolute()
        task.stored = checkpoint.ROWS if inside else str(task.path)
    return task


def load(path: str | Path, task: Task | None = None) -> "Trained":
    """Read a trained model from a run directory.

    Args:
        path: the run directory.
        task: the task of the run. It is required for a task of your own, which csprop cannot find by
            its name.

    Raises:
        InputError: the directory is not a run or is damaged, or the task does not fit it.
    """
    folder = RunFolder(path)
    config, task = stored_task(folder, task)
    import safetensors.torch

    from csprop.training.session import Trained

    weights = folder.path / checkpoint.WEIGHTS
    try:
        model = network(config.model, safetensors.torch.load(folder.read(checkpoint.WEIGHTS)))
    except InputError:
        raise
    except (safetensors.SafetensorError, RuntimeError, LookupError, ValueError):
        raise InputError(f"{weights}: does not fit config.json; the run is damaged") from None
    if not all(bool(value.isfinite().all()) for value in model.parameters()):
        raise InputError(f"{weights}: has weights that are not finite; the run is damaged")
    result = stored_result(folder)
    model.trained_as, model.names = config, names_of(task)
    environment = folder.read_config()["environment"]
    metrics = folder.read_metrics()
    return Trained(model.eval(), task, config, metrics, result, folder.path, environment)


def network(config: "CSPConfig", weights: "Mapping[str, Tensor]") -> "CSP":
    """Return a model with these weights. It takes no memory before their shapes fit.

    Raises:
        ValueError, RuntimeError: they do not fit.
    """
    import torch

    from csprop.nn.model import CSP

    single = all(value.dtype == torch.float32 for value in weights.values())
    with torch.device("meta"):
        shapes = {name: value.shape for name, value in CSP(config).state_dict().items()}
    if not single or shapes != {name: value.shape for name, value in weights.items()}:
        raise ValueError("these are not the weights of such a model")
    model = CSP(config, torch.Generator())  # torch's own generator would move on
    model.load_state_dict(weights)
    return model
