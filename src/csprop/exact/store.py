"""A certificate in its run directory: locked.safetensors beside certificate.json."""

import hashlib
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load
from safetensors.torch import save as packed

from csprop.errors import InputError
from csprop.exact.certify import Certificate
from csprop.exact.locked import Locked, NotFinite
from csprop.nn.model import CSP
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder
from csprop.training.run import Run


def save(certificate: Certificate, path: str | Path) -> bool:
    """Into a run's directory. An earlier proof gives way to another one alone: False if it stays."""
    folder = RunFolder(path)
    with folder.locked():
        if certificate.locked is None and folder.has(checkpoint.LOCKED):
            return False
        folder.remove(checkpoint.CERTIFICATE, checkpoint.LOCKED)
        weights = checkpoint.WEIGHTS
        if certificate.locked is not None:
            weights = checkpoint.LOCKED
            folder.write(weights, packed(certificate.locked.state_dict()))
        digest = hashlib.sha256(folder.read(weights)).hexdigest()
        document = {"weights": {"file": weights, "sha256": digest}}
        folder.write_json(checkpoint.CERTIFICATE, certificate.document | document)
        return True


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
            {name.removeprefix(prefix): value for name, value in tensors.items() if prefix in name}
        )
        kept = tensors["kept"]
        codes = [tensors[f"codes_{layer}"] for layer in range(len(kept))]
        return Locked(
            network.eval().requires_grad_(False), codes, kept, run.config.model.vocab_size
        ).eval()
    except (SafetensorError, RuntimeError, LookupError, ValueError, NotFinite):
        raise InputError(
            f"{folder.path / checkpoint.LOCKED}: does not fit config.json; run `csprop certify "
            f"{folder.path}` again"
        ) from None
