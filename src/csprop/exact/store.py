"""A certificate in its run directory: locked.safetensors beside certificate.json."""

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load
from safetensors.torch import save as packed

from csprop.errors import InputError
from csprop.exact.certify import Certificate
from csprop.exact.locked import Locked, NotFinite
from csprop.nn.model import CSP
from csprop.tasks import FileTask, Task
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder
from csprop.training.run import Run


def save(certificate: Certificate, path: str | Path) -> bool:
    """Into a run's directory. An earlier proof gives way to another one alone: False if it stays."""
    folder = RunFolder(path)
    with checkpoint.locked(folder.path):
        if certificate.locked is None:
            if folder.has(checkpoint.LOCKED) and folder.has(checkpoint.CERTIFICATE):
                return False
            folder.remove(checkpoint.LOCKED)
        document = dict(certificate.document)
        if certificate.locked is not None:
            folder.write(checkpoint.LOCKED, packed(certificate.locked.state_dict()))
            network = certificate.locked.network
            assert isinstance(network, CSP)
            document["model"] = asdict(network.config)
            document["weights"] = _named(folder, checkpoint.LOCKED)
        elif "length" in document:
            document["weights"] = _named(folder, checkpoint.WEIGHTS)
        folder.write_json(checkpoint.CERTIFICATE, document)
        return True


def _named(folder: RunFolder, file: str) -> dict[str, str]:
    return {"file": file, "sha256": hashlib.sha256(folder.read(file)).hexdigest()}


def load_locked(run: Run) -> Locked | None:
    """The locked model of a run, if it has been certified."""
    if run.path is None:
        return None
    folder = RunFolder(run.path)
    if not (folder.has(checkpoint.LOCKED) and folder.has(checkpoint.CERTIFICATE)):
        return None  # the certificate is written last
    content = folder.read(checkpoint.LOCKED)
    try:
        tensors = load(content)
        network = CSP(run.config.model)
        prefix = "network."
        network.load_state_dict(
            {
                name.removeprefix(prefix): value
                for name, value in tensors.items()
                if name.startswith(prefix)
            }
        )
        kept = tensors["kept"]
        codes = [tensors[f"codes_{layer}"] for layer in range(len(kept))]
        locked = Locked(
            network.eval().requires_grad_(False), codes, kept, run.config.model.vocab_size
        ).eval()
    except (SafetensorError, RuntimeError, LookupError, ValueError, NotFinite):
        raise InputError(
            f"{folder.path / checkpoint.LOCKED}: does not fit config.json; run `csprop certify "
            f"{folder.path}` again"
        ) from None
    _check_proven(locked, folder, run.task)
    return locked


def read_certificate(folder: RunFolder) -> dict[str, Any]:
    """What a run's certificate says."""
    document = folder.read_json(checkpoint.CERTIFICATE)
    if not (isinstance(document, dict) and {"verdict", "proven", "statement"} <= document.keys()):
        raise InputError(
            f"{folder.path / checkpoint.CERTIFICATE}: is no certificate: run `csprop certify "
            f"{folder.path}` again"
        )
    return document


def _check_proven(locked: Locked, folder: RunFolder, task: Task | FileTask) -> None:
    """Refuse a machine that comes out on this computer as another than was proven on its own."""
    certificate = read_certificate(folder)
    machine = certificate.get("machine", {})
    computed = {
        "places": locked.places.tolist(),
        "following": locked.following.tolist(),
        "answers": locked.scores.argmax(dim=2).tolist(),
    }
    named = (certificate.get("task", {}).get("name"), certificate.get("weights"))
    if machine != computed or named != (task.name, _named(folder, checkpoint.LOCKED)):
        raise InputError(
            f"{folder.path / checkpoint.CERTIFICATE}: is not about this locked model: run `csprop "
            f"certify {folder.path}` again"
        )
