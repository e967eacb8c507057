"""The verifier: the only reader of certificates.

It needs NumPy and safetensors, not torch, and shares no code with the prover. A certificate of a finite
machine claims an invariant, a set of pairs of a state of the machine and a state of the task:

    the first states are a pair;
    from each pair, every token leads to a pair, and the machine answers there as the task does;
    and every one of these steps is what the weights compute, with nothing near a tie.

The verdict, the statement and every number that a user sees must be what follows from these facts,
except the record of how the codes were searched.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from csprop.automata.automaton import Automaton, CounterAutomaton
from csprop.data.examples import UNLABELLED
from csprop.errors import InputError
from csprop.files import from_json
from csprop.proof import statements
from csprop.proof.certificate import Certificate, CountingProof, FiniteProof
from csprop.proof.verify_counting import verify_counting
from csprop.proof.verify_finite import verify_finite
from csprop.proof.verify_network import Array, Rejected, check_weights, complete, demand
from csprop.tasks.base import Task
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder

if TYPE_CHECKING:
    from csprop.training.scores import Score

_MALFORMED = (
    OSError, SafetensorError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError,
    RecursionError,
)  # fmt: skip
Read = Callable[[str], bytes]
Trial = Callable[[int], "Score"]


def verify(read: Read, model: dict[str, Any], task: Task, trial: Trial | None = None) -> Certificate:
    """Return the certificate of a run, if it holds, with the scores of its machine.

    A certificate of a data file whose rows cannot be read any more is returned as `unchecked`.

    Args:
        read: returns the content of a file of the run.
        model: the options of the model, as config.json has them.
        task: the task of the run.
        trial: tests the model as trained on every input of a length. Without it, a certificate of such
            a test is rejected.

    Raises:
        Rejected: the certificate does not hold.
        InputError: a file of the run cannot be read, or the task is malformed.
    """
    try:
        with np.errstate(all="ignore"):  # numbers that are not finite are refused where it matters
            content = from_json(read(checkpoint.CERTIFICATE))
            try:
                certificate = Certificate.from_json(content)
            except InputError as error:  # about the tables of the automaton
                raise Rejected(f"it is malformed ({error})") from None
            demand(certificate.task == task.describe(), "it is about another task")
            if certificate.proof is not None:
                return _verify_proof(certificate, read, model, task)
    except InputError:  # about the task or a file of the run, not about the certificate
        raise
    except _MALFORMED as error:
        text = " ".join(str(error).split())
        raise Rejected(f"it is malformed ({type(error).__name__}: {text})") from None
    return _check_trial(certificate, read, task, trial)


def read_certificate(
    folder: RunFolder, model: dict[str, Any], task: Task, trial: Trial | None = None
) -> Certificate | None:
    """Return the certificate in a run directory, or None; raise InputError if it does not hold."""
    if not folder.has(checkpoint.CERTIFICATE):  # it is written last
        return None
    try:
        return verify(folder.read, model, task, trial)
    except Rejected as complaint:
        path = folder.path / checkpoint.CERTIFICATE
        raise InputError(f"{path}: does not hold: {complaint}: {folder.remedy(path.name)}") from None


def _check_trial(certificate: Certificate, read: Read, task: Task, trial: Trial | None) -> Certificate:
    """Test every input of a length again; without a length, demand that nothing is claimed."""
    if certificate.trial is None:
        return _check_unproven(certificate)
    if trial is None:
        raise Rejected("it covers one length by trial: run `csprop certify` with that length again")
    _read_weights(certificate, read, checkpoint.WEIGHTS)
    try:
        score = trial(certificate.trial.length)
    except InputError as error:
        raise Rejected(f"it cannot be checked ({error})") from None
    expected = statements.state_trial(task, certificate.trial.length, score)
    demand(certificate.trial == expected.trial, "other inputs are answered wrongly")
    return _check_claim(certificate, expected)


def _check_unproven(certificate: Certificate) -> Certificate:
    """Demand that a certificate without a proof has a reason and nothing else. It is not verified."""
    verdict, example = certificate.verdict, certificate.counterexample
    failures = [statements.COUNTEREXAMPLE]
    if example is None:
        failures = [statements.NOT_FINITE, statements.NOT_LEARNED]
    honest = verdict in failures and certificate.statement.startswith(statements.NOTHING)
    bare = Certificate(verdict, False, certificate.statement, certificate.task, counterexample=example)
    demand(honest and certificate == bare, "it claims a proof and has none")
    return certificate


def _read_weights(certificate: Certificate, read: Read, name: str) -> bytes:
    """Return the content of the file that a certificate is about, which must have this name."""
    weights = certificate.weights
    if weights is None or weights.file != name:
        raise Rejected("it is about another file")
    content = read(name)
    same = hashlib.sha256(content).hexdigest() == weights.sha256
    demand(same, f"{name} is not the file with the SHA-256 that was certified")
    return content


def _check_claim(certificate: Certificate, expected: Certificate) -> Certificate:
    """Demand the words that follow from the facts."""
    demand(certificate.verdict == expected.verdict, "its verdict is not what is proven")
    demand(certificate.proven is expected.proven, "it claims no proof, or one that it has not")
    demand(certificate.statement == expected.statement, "its statement is not what is proven")
    demand(certificate.trusted == expected.trusted, "its assumptions are not those of such a proof")
    rows = (certificate.rows, certificate.disagreeing) == (expected.rows, expected.disagreeing)
    demand(rows, f"the rows that disagree are others: {len(expected.disagreeing):,}")
    return certificate


def _verify_proof(
    certificate: Certificate, read: Read, model: dict[str, Any], task: Task
) -> Certificate:
    proof, automaton = certificate.proof, certificate.automaton
    alone = certificate.trial is None and certificate.counterexample is None
    demand(alone, "it has a proof, and a trial or a counterexample beside it")
    content, trained = _read_weights(certificate, read, checkpoint.LOCKED), complete(model)
    if certificate.model is None:
        raise Rejected("it does not name its model")
    model, kinds = complete(certificate.model), {cell["kind"] for cell in trained["cells"]}
    # The machine of trackers is written into a model of another kind, and that one is certified.
    same = model == trained or kinds == {"tracker"}
    demand(same, "config.json describes another model than the certified one")
    sizes = (len(task.vocab), len(task.classes))
    demand((model["vocab_size"], model["num_classes"]) == sizes, "the model does not fit the task")
    stored = load(content)
    check_weights(stored, model, isinstance(proof, CountingProof))
    tensors = {name: value.astype(np.float64) for name, value in stored.items()}
    small = all((np.abs(each) <= 2.0**20).all() for each in tensors.values())
    demand(small, "a weight is beyond ±2^20, or not a number")
    assert automaton is not None  # as a certificate with a proof has one, of its kind
    names = (automaton.vocab, automaton.classes, automaton.words)
    demand(names == (task.vocab, task.classes, task.words), "its automaton has other names")
    if isinstance(proof, CountingProof) and isinstance(automaton, CounterAutomaton):
        verify_counting(proof, automaton, tensors, model, task)
    else:
        assert isinstance(proof, FiniteProof)
        assert isinstance(automaton, Automaton)
        scores = verify_finite(proof, automaton, tensors, model, task)
        certificate = replace(certificate, scores=scores)
    disagreeing: tuple[int, ...] = ()
    if task.oracle is None:
        try:
            disagreeing = tuple(_disagreeing_rows(automaton, task))
        except InputError as error:  # the file is gone, or has changed
            return statements.state_unchecked(certificate, task, str(error))
    expected = statements.state_proof(task, proof, automaton, disagreeing)
    if certificate.verdict == statements.NOT_CHECKED:  # it was saved while the file was gone
        names = ("verdict", "proven", "statement", "rows", "disagreeing", "trusted")
        claims = {name: getattr(expected, name) for name in names}
        return replace(certificate, **claims)
    return _check_claim(certificate, expected)


def _disagreeing_rows(automaton: Automaton | CounterAutomaton, task: Task) -> Iterator[int]:
    """Yield the rows with a label that is not the answer of an automaton; the first row is 1."""
    counts = isinstance(automaton, CounterAutomaton)
    control: Any = automaton.control if counts else automaton
    following = np.array(control.transitions)
    answers = np.array([-1 if a is None else a for a in control.outputs])
    first = 1
    for rows in task.data.matrices():
        symbols = _views(automaton, rows.tokens) if counts else rows.tokens
        state, wrong = np.full(len(symbols), control.start), np.zeros(len(symbols), bool)
        for column, labels in zip(symbols.T, rows.labels.T, strict=True):
            state = following[state, column]
            wrong |= (labels != UNLABELLED) & (answers[state] != labels)
        yield from (first + np.flatnonzero(wrong)).tolist()
        first += len(symbols)


def _views(automaton: CounterAutomaton, tokens: Array) -> Array:
    """Return the symbols of the control: each token with the view of the counts after it."""
    window, views = automaton.window, np.zeros_like(tokens)
    for column in zip(*automaton.increments, strict=True):
        counts = np.array(column)[tokens].cumsum(axis=1)
        views = views * (2 * window + 1) + np.clip(counts, -window, window) + window
    return tokens * (2 * window + 1) ** len(automaton.increments[0]) + views
