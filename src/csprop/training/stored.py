"""Trained models, and reading them from run directories; everything but the weights without torch."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from csprop.data.examples import Examples
from csprop.errors import InputError
from csprop.progress import Epoch
from csprop.tasks import from_description, resolve
from csprop.tasks.base import Task
from csprop.tasks.rows import FileTask
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder
from csprop.training.config import RunConfig, environment, from_json, names_of
from csprop.training.scores import Result

if TYPE_CHECKING:
    from torch import Tensor

    from csprop.nn.config import CSPConfig
    from csprop.nn.model import CSP


@dataclass
class Trained:
    """A trained model, its task and its configuration."""

    model: "CSP"
    """The model as trained, with the best weights."""
    task: Task
    """The task that it was trained on."""
    config: RunConfig
    """The configuration, as in config.json."""
    metrics: list[Epoch]
    """One row per epoch, as in metrics.jsonl."""
    result: Result | None
    """The result, as in result.json; None if training is unfinished."""
    path: Path | None = None
    """The run directory, if there is one."""
    environment: dict[str, Any] = field(default_factory=environment)
    """The machine and software of the training: versions, CPU, threads, backend."""
    torch_because: str = ""
    """The reason why its last steps were torch operations; empty if the kernel took them."""
    no_proof: str = ""
    """The reason why training ended without a proof, if it looked for one and has no certificate."""
    training: Examples | None = field(default=None, repr=False)
    """The training set, if it is at hand; None for a run that was loaded."""

    @property
    def made(self) -> Literal["trained", "learned", "compiled"]:
        """The origin of the model; if it was not trained, a machine was written into its weights."""
        return "trained" if self.result is None else self.result.made


def stored_config(path: str | Path) -> RunConfig:
    """Return the configuration in a run directory."""
    folder = RunFolder(path)
    return from_json(folder.path, folder.read_config(verify=False))


def stored_task(folder: RunFolder, task: Task | None = None) -> tuple[RunConfig, Task]:
    """Return the configuration and the task of a run that has weights; the task may be the user's."""
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
        raise InputError(f"{folder.path}: has no {lacks}: {folder.remedy()}")
    return config, task


def stored_result(folder: RunFolder) -> Result | None:
    """Return the content of result.json; None if training is unfinished."""
    if not folder.has(checkpoint.RESULT):
        return None
    document = folder.read_json(checkpoint.RESULT)
    try:
        return Result.from_json(document)
    except ValueError:
        raise folder.damaged(checkpoint.RESULT) from None


def within(task: Task, folder: Path) -> Task:
    """Return the task of a run in this directory.

    The path of rows that csprop wrote into it is stored relative to it: the directory can be moved.
    """
    if isinstance(task, FileTask):
        task = copy(task)
        inside = task.path == (folder / checkpoint.ROWS).absolute()
        task.stored = checkpoint.ROWS if inside else str(task.path)
    return task


def load(path: str | Path, task: Task | None = None) -> Trained:
    """Read a trained model from a run directory; csprop cannot find a task of your own by its name."""
    folder = RunFolder(path)
    config, task = stored_task(folder, task)
    import safetensors.torch

    content = folder.read(checkpoint.WEIGHTS)
    try:
        model = network(config.model, safetensors.torch.load(content))
    except InputError:
        raise
    except (safetensors.SafetensorError, RuntimeError, LookupError, ValueError):
        raise folder.damaged(checkpoint.WEIGHTS, "does not fit config.json") from None
    if not all(bool(value.isfinite().all()) for value in model.parameters()):
        raise folder.damaged(checkpoint.WEIGHTS, "has weights that are not finite")
    result = stored_result(folder)
    model.trained_as, model.names = config, names_of(task)
    environment = folder.read_config()["environment"]
    metrics = folder.read_metrics()
    return Trained(model.eval(), task, config, metrics, result, folder.path, environment)


def network(config: "CSPConfig", weights: "Mapping[str, Tensor]") -> "CSP":
    """Return a model with these weights; a ValueError or RuntimeError says that they do not fit.

    It takes no memory before their shapes fit.
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
