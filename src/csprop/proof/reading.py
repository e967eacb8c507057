"""A certificate that is read from a run directory is made again, and must come out the same.

What is read is not believed because its digests fit. Of the file, the weights are taken, and what they
cannot tell: how long the search was. The machine is computed again, and walked beside the task, or run
over the rows of the file; its margins are measured; and the certificate is written anew from that. The
one in the file must say the same. That takes milliseconds.

The machine is computed by a locked model in torch (`exact.store`), or without torch (`exact.opened`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from csprop.automata.machine import all_below
from csprop.automata.walk import Difference
from csprop.errors import InputError
from csprop.files import digest
from csprop.nn.config import CSPConfig
from csprop.proof import counting_proof as counted
from csprop.proof import document as words
from csprop.proof.document import Certificate
from csprop.proof.limits import MachineMoves, NotFinite, Tightness, accept, moves_of
from csprop.proof.prove import domain, prove
from csprop.tasks.base import Task
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder

if TYPE_CHECKING:
    from csprop.proof.locked import Locked
    from csprop.proof.locked_counter import LockedCounter
    from csprop.proof.tables import CountingTables, Tables

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


class Ways(NamedTuple):
    """How the machine of a locked model is computed, with torch or without."""

    locked: Callable[[bytes], Any]
    """The locked model of the content of its file."""
    tightness: Callable[[Any, MachineMoves], Sequence[Tightness]]
    """The distances in each layer of a finite one, over some transitions."""
    settled: Callable[[Any, MachineMoves], float]
    """The margin of its scores; NotFinite where something depends on rounding."""
    length: Callable[[int], Certificate]
    """What is found on every input of one length, by the model as trained."""


def read(folder: RunFolder, task: Task, config: CSPConfig, ways: Ways) -> Certificate | None:
    """What the certificate in a run directory proves, after a check; None where there is none.

    A certificate of a file whose rows cannot be read any more is given as `unchecked`.

    Args:
        folder: the run directory.
        task: the task of the run.
        config: the options of its model.
        ways: how to compute the machine again.

    Raises:
        InputError: the certificate is damaged, or does not hold.
    """
    if not folder.has(checkpoint.CERTIFICATE):  # it is written last
        return None
    document = folder.read_json(checkpoint.CERTIFICATE)
    try:
        if document["format"] != words.FORMAT:
            _refuse(folder, "was written by another version of csprop")
        if document["task"] != task.describe():
            _refuse(folder, "is about another task")
        if "search" in document:
            found = _proof(folder, document, task, config, ways)
        elif "length" in document:
            found = _length(folder, document, ways)
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
    raise InputError(f"{folder.path / checkpoint.CERTIFICATE}: {complaint}: {folder.certify_again}")


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


def _proof(
    folder: RunFolder, document: dict[str, Any], task: Task, config: CSPConfig, ways: Ways
) -> Certificate:
    """A proof of a locked model, made again."""
    if not folder.has(checkpoint.LOCKED):
        raise InputError(f"{folder.path / checkpoint.LOCKED}: is missing: {folder.certify_again}")
    content = folder.read(checkpoint.LOCKED)
    locked = ways.locked(content)
    if not all_below([document["search"]["rounds"]], 2**31):
        _refuse(folder, "does not say how it was found")
    try:
        if hasattr(locked, "counting"):
            found = _counting(document, locked, task)
        else:
            found = _machine(folder, document, locked, task, ways)
    except NotFinite as failure:
        _refuse(folder, f"does not hold: {failure}")
    if isinstance(found, Difference):
        _refuse(folder, f"does not hold: {words.reason(task, found)}")
    stated = document["model"]
    if CSPConfig.from_json(stated) != config:  # options that were added later may be missing
        stated = config.to_json()
    return _with(found, model=stated, weights=named(checkpoint.LOCKED, content))


def _machine(
    folder: RunFolder,
    document: dict[str, Any],
    locked: "Locked | Tables",
    task: Task,
    ways: Ways,
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
    measured = ways.tightness(locked, moves)
    accept(measured)
    lead = ways.settled(locked, moves)
    if outcome is None:
        return words.unchecked(task, locked, measured, lead, search, why)
    return words.proven(task, depth, locked, measured, lead, outcome, search)


def _counting(
    document: dict[str, Any], locked: "LockedCounter | CountingTables", task: Task
) -> Certificate | Difference:
    search = {name: document["search"][name] for name in ("rounds", "control")}
    allowed = [counted.ROUTER] if locked.routes else counted.CONTROLS
    if search["control"] not in allowed:
        raise NotFinite("it does not say how it was found")
    outcome = counted.prove_counting(locked, task)
    if isinstance(outcome, Difference):
        return outcome
    try:
        return counted.proven(task, locked, outcome, search)
    except InputError as error:
        if task.oracle is not None:
            raise
        return counted.unchecked(task, locked, outcome, search, str(error))


def _length(folder: RunFolder, document: dict[str, Any], ways: Ways) -> Certificate:
    """What was tried at one length, tried again."""
    length = document["length"]
    if type(length) is not int:
        _refuse(folder, "is malformed")
    try:
        found = ways.length(length)
    except InputError as error:
        _refuse(folder, f"cannot be checked ({error})")
    return _with(found, weights=named(checkpoint.WEIGHTS, folder.read(checkpoint.WEIGHTS)))


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


def named(file: str, content: bytes) -> dict[str, str]:
    """A file as a certificate names it."""
    return {"file": file, "sha256": digest(content)}
