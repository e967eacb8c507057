"""A certificate in its run directory: locked.safetensors beside certificate.json."""

from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as unpacked
from safetensors.torch import save as packed

from csprop.errors import InputError
from csprop.files import one_writer
from csprop.nn.config import CSPConfig
from csprop.nn.model import CSP
from csprop.proof.certify import certify_length
from csprop.proof.document import Certificate
from csprop.proof.limits import MOST_CODES, NotFinite
from csprop.proof.locked import Locked, LockedModel
from csprop.proof.locked_counter import LockedCounter, is_counter
from csprop.proof.margins import settled, tightness
from csprop.proof.reading import Ways, named, read
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder, refuse_zoo
from csprop.training.session import Trained
from csprop.training.stored import network


def save(certificate: Certificate, path: str | Path, trained: Trained | None = None) -> bool:
    """Write a certificate into a run directory.

    A proof that is there is replaced only by another proof. One that does not hold gives way to
    whatever a full attempt at a proof has found.

    Args:
        certificate: the certificate.
        path: the run directory.
        trained: the run in it, of which an earlier proof is checked.

    Returns:
        Whether it was written.
    """
    refuse_zoo([path])
    folder = RunFolder(path)
    with one_writer(folder.path):
        if certificate.locked is None and _stays(folder, certificate, trained):
            return False
        document = dict(certificate.document)
        # Without a certificate a lock counts for nothing: no moment has an old one beside a new one.
        folder.remove(checkpoint.CERTIFICATE)
        if certificate.locked is not None:
            assert isinstance(certificate.locked, LockedModel)
            content = packed(certificate.locked.state_dict())
            folder.write(checkpoint.LOCKED, content)
            network = certificate.locked.network
            assert isinstance(network, CSP)
            document["model"] = asdict(network.config)
            document["weights"] = named(checkpoint.LOCKED, content)
        else:
            folder.remove(checkpoint.LOCKED)
            if "length" in document:
                weights = folder.read(checkpoint.WEIGHTS)
                document["weights"] = named(checkpoint.WEIGHTS, weights)
        folder.write_json(checkpoint.CERTIFICATE, document)
        return True


def _stays(folder: RunFolder, weaker: Certificate, trained: Trained | None) -> bool:
    """Whether there is a proof that a weaker result must not replace."""
    if not (folder.has(checkpoint.LOCKED) and folder.has(checkpoint.CERTIFICATE)):
        return False
    if trained is None or "length" in weaker.document:
        return True
    try:
        return load(trained) is not None
    except InputError:
        return False


def load(trained: Trained) -> Certificate | None:
    """What a run's certificate proves, after a check; None where there is none.

    A certificate of a file whose rows cannot be read any more is given as `unchecked`.

    Raises:
        InputError: the certificate is damaged, or does not hold.
    """
    if trained.path is None:
        return None
    folder, task, config = RunFolder(trained.path), trained.task, trained.config.model
    ways = Ways(
        locked=lambda content: _locked(folder, content, config),
        tightness=tightness,
        settled=settled,
        length=lambda length: certify_length(trained.model, task, length),
    )
    return read(folder, task, config, ways)


def _locked(folder: RunFolder, content: bytes, config: CSPConfig) -> Locked | LockedCounter:
    """The locked model as its file has it."""
    prefix = "network."
    try:
        tensors = unpacked(content)
        inside = {
            name.removeprefix(prefix): tensors.pop(name)
            for name in [*tensors]
            if name.startswith(prefix)
        }
        model = network(config, inside).eval().requires_grad_(False)
        if not all(bool(each.isfinite().all()) for each in (*model.parameters(), *tensors.values())):
            raise ValueError
        if is_counter(model) and not tensors:
            return LockedCounter(model).eval()
        kept = tensors.pop("kept")
        codes = [tensors.pop(f"codes_{layer}") for layer in range(config.depth)]
        fits = kept.dtype == torch.bool and kept.shape == (config.depth, config.width)
        for each in codes:
            fits = fits and each.dtype == torch.float32 and 0 < len(each) <= MOST_CODES
            fits = fits and each.shape[1:] == (config.order, config.width)
        if tensors or not fits:
            raise ValueError
        return Locked(model, codes, kept, config.vocab_size).eval()
    except (SafetensorError, RuntimeError, LookupError, ValueError, TypeError, NotFinite):
        raise InputError(
            f"{folder.path / checkpoint.LOCKED}: does not fit config.json: {folder.certify_again}"
        ) from None
