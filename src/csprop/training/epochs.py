"""Saving a completed epoch in a run directory, and returning to it."""

import json
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from csprop.errors import InputError
from csprop.files import append, digest, replace, sweep
from csprop.progress import Epoch
from csprop.training.checkpoint import (
    CONFIG,
    LAST,
    MANIFEST,
    METRICS,
    RESULT,
    WEIGHTS,
    RunFolder,
    metrics_line,
)
from csprop.training.loop import Trainer


def commit_epoch(folder: RunFolder, row: Epoch, trainer: Trainer, identity: str) -> None:
    """Save a completed epoch, together with the identity of the run's configuration."""
    append(folder.path / METRICS, metrics_line(row))
    if trainer.best is row:
        replace(folder.path / WEIGHTS, save(trainer.best_weights))
    tensors, values = trainer.state()
    values["sha256"] = {
        "state": digest(save(tensors) + json.dumps(values).encode()),
        "metrics": digest((folder.path / METRICS).read_bytes()),
        "identity": identity,
    }
    replace(folder.path / LAST, save(tensors, {"csprop": json.dumps(values)}))
    folder.write_manifest()


def resume(folder: RunFolder, trainer: Trainer, identity: str) -> None:
    """Return the trainer and every file to the last committed epoch.

    Raises:
        InputError: the saved state is missing or damaged, or another file was changed.
    """
    for path in (folder.path, folder.path / "last"):
        sweep(path)
    lines: list[bytes] = []
    if folder.has(LAST):
        tensors, values = read_last(folder)
        content = folder.read_bytes(METRICS) if folder.has(METRICS) else b""
        lines = content.splitlines(keepends=True)[: values["epoch"]]
        for name, current in (("metrics", digest(b"".join(lines))), ("identity", identity)):
            if values["sha256"][name] != current:
                changed = METRICS if name == "metrics" else CONFIG
                raise InputError(
                    f"{folder.path / changed}: was changed since {LAST} was written: "
                    "train again with another --out"
                )
        trainer.restore(tensors, values)
        replace(folder.path / WEIGHTS, save(trainer.best_weights))
    elif _has_trained(folder):
        raise InputError(f"{folder.path / LAST}: is missing: train again with another --out")
    (folder.path / "last").mkdir(exist_ok=True)
    replace(folder.path / METRICS, b"".join(lines))
    folder.write_manifest()


def _has_trained(folder: RunFolder) -> bool:
    """Return True if the manifest or the weights show that an epoch was completed here."""
    if not folder.has(MANIFEST):
        return folder.has(WEIGHTS)
    return not folder.digests().keys().isdisjoint((LAST, WEIGHTS, RESULT))


def read_last(folder: RunFolder) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the state of the trainer after the last epoch, checked against its digest."""
    path = folder.path / LAST
    try:
        with safe_open(path, framework="pt") as file:
            values = json.loads(file.metadata()["csprop"])
        tensors, digests = load_file(path), values.pop("sha256")
        if digest(save(tensors) + json.dumps(values).encode()) == digests["state"]:
            return tensors, values | {"sha256": digests}
    except (SafetensorError, OSError, ValueError, RecursionError, LookupError, TypeError):
        pass
    raise InputError(f"{path}: is damaged: train again with another --out")
