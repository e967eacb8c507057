"""A certificate in its run directory: locked.safetensors beside certificate.json."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from safetensors.torch import load as unpack
from safetensors.torch import save as pack

from csprop.errors import InputError
from csprop.files import digest, one_writer
from csprop.nn.config import CSPConfig
from csprop.proof.certificate import Certificate, CountingProof, FiniteProof, WeightsFile
from csprop.proof.limits import NotFinite
from csprop.proof.locked import Locked
from csprop.proof.locked_counter import LockedCounter
from csprop.proof.prove import state_table
from csprop.proof.verify import read_certificate
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder, refuse_zoo
from csprop.training.metrics import exhaustive
from csprop.training.stored import Trained, network


def save(certificate: Certificate, path: str | Path, trained: Trained | None = None) -> bool:
    """Write a certificate into a run directory; return True if it was written.

    An existing proof is replaced only by another proof. One that does not hold is replaced by the
    result of any full attempt at a proof; `trained` is the run whose earlier proof is verified.
    """
    refuse_zoo([path])
    folder = RunFolder(path)
    with one_writer(folder.path):
        if certificate.locked is None and _has_proof(folder, certificate, trained):
            return False
        # Without a certificate a locked model is not used: never is an old one beside a new one.
        folder.remove(checkpoint.CERTIFICATE)
        locked, name = certificate.locked, checkpoint.WEIGHTS
        if locked is not None:
            name = checkpoint.LOCKED
            folder.write(name, pack(locked.state_dict()))
            certificate = replace(certificate, model=locked.network.config.to_json())
        else:
            folder.remove(checkpoint.LOCKED)
        if locked is not None or certificate.trial is not None:
            certificate = replace(certificate, weights=WeightsFile(name, digest(folder.read(name))))
        folder.write_json(checkpoint.CERTIFICATE, certificate.to_json())
        return True


def _has_proof(folder: RunFolder, weaker: Certificate, trained: Trained | None) -> bool:
    """Return True if there is a proof that a weaker result must not replace."""
    if not (folder.has(checkpoint.LOCKED) and folder.has(checkpoint.CERTIFICATE)):
        return False
    if trained is None or weaker.trial is not None:
        return True
    try:
        return load(trained) is not None
    except InputError:
        return False


def load(trained: Trained) -> Certificate | None:
    """Return the verified certificate of a run, with its locked model; None if there is none."""
    if trained.path is None:
        return None
    folder, config = RunFolder(trained.path), trained.config.model
    trial = partial(exhaustive, trained.model, trained.task)
    certificate = read_certificate(folder, config.to_json(), trained.task, trial)
    if certificate is None or certificate.proof is None:
        return certificate
    try:
        locked = _locked(folder.read(checkpoint.LOCKED), certificate)
    except (NotFinite, RuntimeError, LookupError, ValueError):
        path = folder.path / checkpoint.LOCKED
        raise InputError(
            f"{path}: torch computes another machine: {folder.remedy(path.name)}"
        ) from None
    return replace(certificate, locked=locked)


def _locked(content: bytes, certificate: Certificate) -> Locked | LockedCounter:
    """Return the locked model of a verified file, if torch computes the verified machine."""
    assert certificate.model is not None
    config, tensors, prefix = CSPConfig.from_json(certificate.model), unpack(content), "network."
    weights = {name.removeprefix(prefix): tensors[name] for name in tensors if name.startswith(prefix)}
    model, proof = network(config, weights).eval().requires_grad_(False), certificate.proof
    if isinstance(proof, CountingProof):
        locked = LockedCounter(model)
        same = locked.counting.table == proof.counting
    else:
        assert isinstance(proof, FiniteProof)
        codes = [tensors[f"codes_{layer}"] for layer in range(len(tensors["kept"]))]
        locked = Locked(model, codes, tensors["kept"], config.vocab_size)
        same = state_table(locked) == proof.machine
    if not same:
        raise ValueError("its machine is not the one that was verified")
    return locked.eval()
