"""A certificate in its run directory: locked.safetensors beside certificate.json.

What is read back is not believed because its digests fit: the machine is computed again from the
weights, and walked beside the task, or run over the rows of the file. That takes milliseconds.
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

import torch
from safetensors import SafetensorError
from safetensors.torch import load as unpacked
from safetensors.torch import save as packed

from csprop.automata.automaton import Automaton
from csprop.automata.walk import Difference, Endless
from csprop.errors import InputError
from csprop.exact import document as words
from csprop.exact.certify import certify_length
from csprop.exact.document import Certificate, machine_of, network_states
from csprop.exact.locked import Locked, NotFinite
from csprop.exact.margins import accept, margin, moves_of, tightness
from csprop.exact.prove import domain, prove
from csprop.files import digest, one_writer
from csprop.nn.model import CSP
from csprop.tasks.base import Task
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder
from csprop.training.session import Trained

TOLERANCE = 1e-3
"""Of measured distances, which another processor computes a little differently."""


def save(certificate: Certificate, path: str | Path) -> bool:
    """Into a run's directory. An earlier proof gives way to another one alone: False if it stays."""
    folder = RunFolder(path)
    with one_writer(folder.path):
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


def load(trained: Trained) -> Certificate | None:
    """What a run's certificate proves, after a check; None where there is none.

    A certificate of a file whose rows cannot be read any more is given as `unchecked`.

    Raises:
        InputError: the certificate is damaged, or does not hold.
    """
    if trained.path is None:
        return None
    folder = RunFolder(trained.path)
    if not folder.has(checkpoint.CERTIFICATE):  # it is written last
        return None
    document = folder.read_json(checkpoint.CERTIFICATE)
    try:
        if not isinstance(document, dict) or document["format"] != words.FORMAT:
            _refuse(folder, "is no certificate of this csprop")
        if document["task"] != trained.task.describe():
            _refuse(folder, "is about another task")
        if "machine" in document:
            return _machine(folder, document, trained)
        if "length" in document:
            return _length(folder, document, trained)
        verdict, statement = document["verdict"], document["statement"]
        failed = document["proven"] is False and verdict in (words.COUNTEREXAMPLE, words.NOT_FINITE)
        if not failed or not statement.startswith(words.NOTHING):
            _refuse(folder, "claims a proof and has none")
        return Certificate(verdict, False, statement, document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        _refuse(folder, "is malformed")


def _refuse(folder: RunFolder, complaint: str) -> NoReturn:
    raise InputError(
        f"{folder.path / checkpoint.CERTIFICATE}: {complaint}: run `csprop certify {folder.path}` again"
    )


def _machine(folder: RunFolder, document: dict[str, Any], trained: Trained) -> Certificate:
    """A proof of a locked model."""
    task, depth = trained.task, document["depth"]
    if not folder.has(checkpoint.LOCKED):
        raise InputError(
            f"{folder.path / checkpoint.LOCKED}: is missing: run `csprop certify {folder.path}` again"
        )
    locked = _locked(folder, trained)
    automaton = Automaton.from_json(document["automaton"])
    same = document["weights"] == _named(folder, checkpoint.LOCKED)
    same = same and document["model"] == asdict(trained.config.model)
    same = same and document["machine"] == machine_of(locked)
    # Of all automata with the same answers one is the smallest, and it is always numbered alike.
    if not same or automaton != locked.automaton(task.vocab, task.classes, task.words).minimal():
        _refuse(folder, "is not about this locked model")
    if not (depth is None if task.finite else type(depth) is int and depth > 0):
        _refuse(folder, "does not say up to which depth, or needs not")
    certificate = Certificate(
        document["verdict"], True, document["statement"], document, locked, automaton
    )
    try:
        outcome = prove(locked.machine, task, depth)
        states = network_states(locked.places.tolist())
        claimed = words.claim(task, depth, states, len(automaton))
    except Endless:
        _refuse(folder, "is about a task that cannot be walked")
    except InputError as error:  # the file has gone or changed
        return replace(certificate, unchecked=str(error))
    if isinstance(outcome, Difference):
        _refuse(folder, f"does not hold, for {words.reason(task, outcome)}")
    if (document["verdict"], document["statement"], document["proven"]) != (*claimed, True):
        _refuse(folder, "says something else than what is proven")
    if document["minimal_states"] != len(automaton) or not _as_measured(document, locked, task):
        _refuse(folder, "has other margins than this locked model")
    return certificate


def _as_measured(document: dict[str, Any], locked: Locked, task: Task) -> bool:
    """Whether codes and scores are as far apart as the certificate says, and far enough."""
    moves = moves_of(locked, domain(task, document["depth"]))
    try:
        measured = tightness(locked, moves)
        accept(measured)
    except NotFinite:
        return False
    pairs = [(document["margin"], margin(locked, moves))]
    for stated, layer in zip(document["layers"], map(asdict, measured), strict=True):
        pairs += [(stated[name], value) for name, value in layer.items()]
    return all(
        stated is value if value is None else abs(stated - value) <= TOLERANCE * max(1, abs(value))
        for stated, value in pairs
    )


def _length(folder: RunFolder, document: dict[str, Any], trained: Trained) -> Certificate:
    """What was tried at one length, tried again."""
    found = certify_length(trained.model, trained.task, document["length"])
    expected = found.document | {"weights": _named(folder, checkpoint.WEIGHTS)}
    if {**document, "trusted": ()} != {**expected, "trusted": ()}:
        _refuse(folder, "says something else than what comes out here")
    return found


def _named(folder: RunFolder, file: str) -> dict[str, str]:
    return {"file": file, "sha256": digest(folder.read(file))}


def _locked(folder: RunFolder, trained: Trained) -> Locked:
    """The locked model as its file has it."""
    content, prefix = folder.read(checkpoint.LOCKED), "network."
    try:
        tensors = unpacked(content)
        network = CSP(trained.config.model)
        network.load_state_dict(
            {
                name.removeprefix(prefix): value
                for name, value in tensors.items()
                if name.startswith(prefix)
            }
        )
        kept = tensors["kept"]
        codes = [tensors[f"codes_{layer}"] for layer in range(len(kept))]
        finite = all(bool(torch.isfinite(value).all()) for value in tensors.values())
        if not finite or kept.dtype != torch.bool:
            raise ValueError
        symbols = trained.config.model.vocab_size
        return Locked(network.eval().requires_grad_(False), codes, kept, symbols).eval()
    except (SafetensorError, RuntimeError, LookupError, ValueError, TypeError, NotFinite):
        raise InputError(
            f"{folder.path / checkpoint.LOCKED}: does not fit config.json; run `csprop certify "
            f"{folder.path}` again"
        ) from None
