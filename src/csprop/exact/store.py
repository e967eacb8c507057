"""A certificate in its run directory: locked.safetensors beside certificate.json.

What is read back is not believed because its digests fit. Of the file, the weights are taken, and what
they cannot tell: how long the search was. The machine is computed again, and walked beside the task, or
run over the rows of the file; its margins are measured; and the certificate is written anew from that.
The one in the file must say the same. That takes milliseconds.
"""

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

import torch
from safetensors import SafetensorError
from safetensors.torch import load as unpacked
from safetensors.torch import save as packed

from csprop.automata.machine import all_below
from csprop.automata.walk import Difference
from csprop.errors import InputError
from csprop.exact import counted
from csprop.exact import document as words
from csprop.exact.certify import certify_length
from csprop.exact.counted import prove_counting
from csprop.exact.counters import is_counter
from csprop.exact.document import Certificate
from csprop.exact.locked import Locked, NotFinite
from csprop.exact.locked_counter import LockedCounter
from csprop.exact.margins import accept, moves_of, settled, tightness
from csprop.exact.prove import domain, prove
from csprop.exact.search import MOST_CODES
from csprop.files import digest, one_writer
from csprop.nn.config import CSPConfig
from csprop.nn.model import CSP
from csprop.tasks.base import Task
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder
from csprop.training.load import network
from csprop.training.session import Trained

TOLERANCE = 1e-3
"""Of measured distances, which another processor computes a little differently."""
CLAIM = frozenset(["verdict", "proven", "statement"])
ROWS = frozenset(["rows", "disagreeing"])
TRUST = frozenset(["trusted"])
"""Words for people, which another version of csprop may choose otherwise."""
COMPLAINTS = {
    "is not about this locked model": frozenset(
        ["weights", "model", "machine", "counting", "automaton"]
    ),
    "says something else than what is proven": CLAIM,
    "lists other rows than those that disagree": ROWS,
    "has other margins than this locked model": frozenset(
        ["layers", "margin", "gate", "minimal_states"]
    ),
}
"""What is said where some field is not what comes out."""


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
    folder = RunFolder(path)
    with one_writer(folder.path):
        if certificate.locked is None and _stays(folder, certificate, trained):
            return False
        document = dict(certificate.document)
        # Without a certificate a lock counts for nothing: no moment has an old one beside a new one.
        folder.remove(checkpoint.CERTIFICATE)
        if certificate.locked is not None:
            content = packed(certificate.locked.state_dict())
            folder.write(checkpoint.LOCKED, content)
            network = certificate.locked.network
            assert isinstance(network, CSP)
            document["model"] = asdict(network.config)
            document["weights"] = _named(checkpoint.LOCKED, content)
        else:
            folder.remove(checkpoint.LOCKED)
            if "length" in document:
                weights = folder.read(checkpoint.WEIGHTS)
                document["weights"] = _named(checkpoint.WEIGHTS, weights)
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
    folder = RunFolder(trained.path)
    if not folder.has(checkpoint.CERTIFICATE):  # it is written last
        return None
    document = folder.read_json(checkpoint.CERTIFICATE)
    try:
        if document["format"] != words.FORMAT:
            _refuse(folder, "was written by another version of csprop")
        if document["task"] != trained.task.describe():
            _refuse(folder, "is about another task")
        if "search" in document:
            found = _proof(folder, document, trained)
        elif "length" in document:
            found = _length(folder, document, trained)
        else:
            found = _unproven(folder, document)
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        _refuse(folder, "is malformed")
    unchecked = words.NOT_CHECKED in (found.verdict, document.get("verdict"))
    passed_over = TRUST | CLAIM | ROWS if unchecked else TRUST
    for name in found.document | document:
        both = name in document and name in found.document
        if name not in passed_over and not (both and _alike(document[name], found.document[name])):
            said = (each for each, names in COMPLAINTS.items() if name in names)
            _refuse(folder, next(said, f"does not hold, for {name!r} is not what comes out here"))
    return found


def _refuse(folder: RunFolder, complaint: str) -> NoReturn:
    raise InputError(
        f"{folder.path / checkpoint.CERTIFICATE}: {complaint}: run `csprop certify {folder.path}` again"
    )


def _alike(stated: Any, found: Any) -> bool:
    """Whether JSON says what was found; numbers that were measured may differ a little."""
    if isinstance(found, dict):
        same = isinstance(stated, dict) and stated.keys() == found.keys()
        return same and all(_alike(stated[name], value) for name, value in found.items())
    if isinstance(found, list | tuple):
        same = isinstance(stated, list) and len(stated) == len(found)
        return same and all(map(_alike, stated, found))
    if type(stated) is not type(found):
        return False
    if isinstance(found, float):
        return abs(stated - found) <= TOLERANCE * max(1, abs(found))
    return stated == found


def _proof(folder: RunFolder, document: dict[str, Any], trained: Trained) -> Certificate:
    """A proof of a locked model, made again."""
    if not folder.has(checkpoint.LOCKED):
        raise InputError(
            f"{folder.path / checkpoint.LOCKED}: is missing: run `csprop certify {folder.path}` again"
        )
    content = folder.read(checkpoint.LOCKED)
    locked = _locked(folder, content, trained.config.model)
    if not all_below([document["search"]["rounds"]], 2**31):
        _refuse(folder, "does not say how it was found")
    try:
        if isinstance(locked, LockedCounter):
            found = _counting(document, locked, trained.task)
        else:
            found = _machine(folder, document, locked, trained.task)
    except NotFinite as failure:
        _refuse(folder, f"does not hold: {failure}")
    if isinstance(found, Difference):
        _refuse(folder, f"does not hold: {words.reason(trained.task, found)}")
    stated, config = document["model"], trained.config.model
    if CSPConfig.from_dict(stated) != config:  # options that were added later may be missing
        stated = asdict(config)
    return _with(found, model=stated, weights=_named(checkpoint.LOCKED, content))


def _machine(
    folder: RunFolder, document: dict[str, Any], locked: Locked, task: Task
) -> Certificate | Difference:
    depth = document["depth"]
    search = {name: document["search"][name] for name in ("rounds", "radius")}
    if not (depth is None if task.finite else type(depth) is int and depth > 0):
        _refuse(folder, "has no depth although the task needs one, or has one although it does not")
    if not 0 < search["radius"] < math.inf:
        _refuse(folder, "does not say how it was found")
    why = ""
    try:
        outcome = prove(locked.machine, task, depth)
    except InputError as error:
        if task.oracle is not None:
            raise
        outcome, why = None, str(error)  # the file has gone or changed
    if isinstance(outcome, Difference):
        return outcome
    moves = moves_of(locked, domain(task, depth))
    measured = tightness(locked, moves)
    accept(measured)
    lead = settled(locked, moves)
    if outcome is None:
        return words.unchecked(task, locked, measured, lead, search, why)
    return words.proven(task, depth, locked, measured, lead, outcome, search)


def _counting(document: dict[str, Any], locked: LockedCounter, task: Task) -> Certificate | Difference:
    search = {name: document["search"][name] for name in ("rounds", "control")}
    allowed = [counted.ROUTER] if locked.network.routers else counted.CONTROLS
    if search["control"] not in allowed:
        raise NotFinite("it does not say how it was found")
    outcome = prove_counting(locked, task)
    if isinstance(outcome, Difference):
        return outcome
    try:
        return counted.proven(task, locked, outcome, search)
    except InputError as error:
        if task.oracle is not None:
            raise
        return counted.unchecked(task, locked, outcome, search, str(error))


def _length(folder: RunFolder, document: dict[str, Any], trained: Trained) -> Certificate:
    """What was tried at one length, tried again."""
    length = document["length"]
    if type(length) is not int:
        _refuse(folder, "is malformed")
    try:
        found = certify_length(trained.model, trained.task, length)
    except InputError as error:
        _refuse(folder, f"cannot be checked ({error})")
    return _with(found, weights=_named(checkpoint.WEIGHTS, folder.read(checkpoint.WEIGHTS)))


def _unproven(folder: RunFolder, document: dict[str, Any]) -> Certificate:
    """Why nothing was proven. Nobody can check that; but it must not sound like a proof."""
    verdict, statement = document["verdict"], document["statement"]
    failures = (words.COUNTEREXAMPLE, words.NOT_FINITE, words.NOT_LEARNED)
    honest = document["proven"] is False and verdict in failures
    if not (honest and statement.startswith(words.NOTHING)):
        _refuse(folder, "claims a proof and has none")
    return Certificate(verdict, False, statement, document)


def _with(certificate: Certificate, **more: Any) -> Certificate:
    """The same with more in its document."""
    return replace(certificate, document=certificate.document | more)


def _named(file: str, content: bytes) -> dict[str, str]:
    return {"file": file, "sha256": digest(content)}


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
            f"{folder.path / checkpoint.LOCKED}: does not fit config.json; run `csprop certify "
            f"{folder.path}` again"
        ) from None
