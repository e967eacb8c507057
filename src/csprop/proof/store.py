"""A certificate in its run directory: locked.safetensors beside certificate.json."""

from dataclasses import replace
from pathlib import Path

from safetensors.torch import load as unpack
from safetensors.torch import save as pack

from csprop.errors import InputError
from csprop.files import digest, one_writer
from csprop.nn.config import CSPConfig
from csprop.nn.model import CSP
from csprop.proof.certificate import Certificate, CountingProof, FiniteProof, WeightsFile
from csprop.proof.limits import NotFinite
from csprop.proof.locked import Locked, LockedModel
from csprop.proof.locked_counter import LockedCounter
from csprop.proof.verify import read_certificate
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder, refuse_zoo
from csprop.training.metrics import exhaustive
from csprop.training.scores import Score
from csprop.training.stored import Trained, network


def save(certificate: Certificate, path: str | Path, trained: Trained | None = None) -> bool:
    """Write a certificate into a run directory.

    An existing proof is replaced only by another proof. One that does not hold is replaced by the
    result of any full attempt at a proof.

    Args:
        certificate: the certificate.
        path: the run directory.
        trained: the run in it, whose earlier proof is verified.

    Returns:
        True if it was written.
    """
    refuse_zoo([path])
    folder = RunFolder(path)
    with one_writer(folder.path):
        if certificate.locked is None and _has_proof(folder, certificate, trained):
            return False
        # Without a certificate a locked model is not used: never is an old one beside a new one.
        folder.remove(checkpoint.CERTIFICATE)
        if certificate.locked is not None:
            assert isinstance(certificate.locked, LockedModel)
            content = pack(certificate.locked.state_dict())
            folder.write(checkpoint.LOCKED, content)
            assert isinstance(certificate.locked.network, CSP)
            certificate = replace(
                certificate,
                model=certificate.locked.network.config.to_json(),
                weights=WeightsFile(checkpoint.LOCKED, digest(content)),
            )
        else:
            folder.remove(checkpoint.LOCKED)
            if certificate.trial is not None:
                content = folder.read(checkpoint.WEIGHTS)
                weights = WeightsFile(checkpoint.WEIGHTS, digest(content))
                certificate = replace(certificate, weights=weights)
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
    """Return the verified certificate of a run, with its locked model; None if there is none.

    A certificate of a file whose rows cannot be read any more is `unchecked`.

    Raises:
        InputError: the certificate is damaged, or does not hold.
    """
    if trained.path is None:
        return None
    folder, config = RunFolder(trained.path), trained.config.model

    def trial(length: int) -> Score:
        return exhaustive(trained.model, trained.task, length)

    verified = read_certificate(folder, config.to_json(), trained.task, trial)
    if verified is None or verified.certificate.proof is None:
        return None if verified is None else verified.certificate
    certificate = verified.certificate
    try:
        locked = _locked(folder.read(checkpoint.LOCKED), config, certificate)
    except (NotFinite, RuntimeError, LookupError, ValueError):
        path = folder.path / checkpoint.LOCKED
        raise InputError(f"{path}: torch computes another machine: {folder.certify_again}") from None
    return replace(certificate, locked=locked)


def _locked(content: bytes, config: CSPConfig, certificate: Certificate) -> Locked | LockedCounter:
    """Return the locked model of a verified file.

    Raises:
        ValueError, NotFinite: its machine is not the one that was verified.
    """
    tensors, prefix = unpack(content), "network."
    weights = {name.removeprefix(prefix): tensors[name] for name in tensors if name.startswith(prefix)}
    model, proof = network(config, weights).eval().requires_grad_(False), certificate.proof
    if isinstance(proof, CountingProof):
        locked = LockedCounter(model).eval()
        same = locked.counting.table == proof.counting
    else:
        assert isinstance(proof, FiniteProof)
        codes = [tensors[f"codes_{layer}"] for layer in range(len(tensors["kept"]))]
        locked = Locked(model, codes, tensors["kept"], config.vocab_size).eval()
        table = (
            tuple(map(tuple, locked.places.tolist())),
            locked.machine.transitions,
            locked.machine.outputs,
        )
        same = table == (proof.machine.places, proof.machine.transitions, proof.machine.outputs)
    if not same:
        raise ValueError("its machine is not the one that was verified")
    return locked
