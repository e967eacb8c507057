"""Reading a run directory."""

from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from torch import Generator, Tensor

from csprop.errors import InputError
from csprop.nn.config import CSPConfig
from csprop.nn.model import CSP
from csprop.tasks.base import Task
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder
from csprop.training.config import names_of
from csprop.training.session import Trained
from csprop.training.stored import stored_result, stored_task


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
    config, task = stored_task(folder, task)
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
    result = stored_result(folder)
    model.trained_as, model.names = config, names_of(task)
    environment = folder.read_config()["environment"]
    metrics = folder.read_metrics()
    return Trained(model.eval(), task, config, metrics, result, folder.path, environment)


def network(config: CSPConfig, weights: Mapping[str, Tensor]) -> CSP:
    """Return a model with these weights. It takes no memory before their shapes fit.

    Raises:
        ValueError, RuntimeError: they do not fit.
    """
    with torch.device("meta"):
        shapes = {name: value.shape for name, value in CSP(config).state_dict().items()}
    single = all(value.dtype == torch.float32 for value in weights.values())
    if not single or shapes != {name: value.shape for name, value in weights.items()}:
        raise ValueError("these are not the weights of such a model")
    model = CSP(config, Generator())  # torch's own would go on from elsewhere
    model.load_state_dict(weights)
    return model
