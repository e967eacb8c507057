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
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from csprop.automata.automaton import Automaton, CounterAutomaton
from csprop.data.examples import UNLABELLED
from csprop.errors import InputError
from csprop.files import from_json
from csprop.proof import statements
from csprop.proof.certificate import Certificate, CountingProof, ExactCounts, FiniteProof
from csprop.proof.verify_counting import (
    CounterTable,
    CountingNetwork,
    Knowledge,
    Step,
    check_closed,
    largest_factor,
    network_step,
)
from csprop.proof.verify_finite import DOUBT, close, verify_finite
from csprop.proof.verify_network import Array, Rejected, check_weights, complete, demand
from csprop.tasks.base import Task
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder

if TYPE_CHECKING:
    from csprop.training.scores import Score

MOST_STATES = 1 << 16
CONTROLS = {"switch": ("trained", "made anew"), "router": ("router",)}
"""The possible origins of the weights above the counters."""
_MALFORMED = (
    OSError, SafetensorError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError,
    RecursionError,
)  # fmt: skip
Read = Callable[[str], bytes]
Trial = Callable[[int], "Score"]


@dataclass(frozen=True)
class Verified:
    """A certificate that holds, and the scores of its machine."""

    certificate: Certificate
    scores: Array | None = None
    """The scores after each transition of a finite machine, (states, tokens, classes)."""


def verify(read: Read, model: dict[str, Any], task: Task, trial: Trial | None = None) -> Verified:
    """Verify the certificate of a run.

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
            certificate = _parse(read(checkpoint.CERTIFICATE))
            demand(certificate.task == task.describe(), "it is about another task")
            if certificate.proof is not None:
                return _verify_proof(certificate, read, model, task)
    except InputError:  # about the task or a file of the run, not about the certificate
        raise
    except _MALFORMED as error:
        text = " ".join(str(error).split())
        raise Rejected(f"it is malformed ({type(error).__name__}: {text})") from None
    if certificate.trial is None:
        return Verified(_check_unproven(certificate))
    demand(
        trial is not None, "it covers one length by trial: run `csprop certify` with that length again"
    )
    assert trial is not None
    return Verified(_check_trial(certificate, read, task, trial))


def read_certificate(
    folder: RunFolder, model: dict[str, Any], task: Task, trial: Trial | None = None
) -> Verified | None:
    """Verify the certificate in a run directory; None if there is none.

    Raises:
        InputError: the certificate is damaged, or does not hold.
    """
    if not folder.has(checkpoint.CERTIFICATE):  # it is written last
        return None
    try:
        return verify(folder.read, model, task, trial)
    except Rejected as complaint:
        path = folder.path / checkpoint.CERTIFICATE
        raise InputError(f"{path}: does not hold: {complaint}: {folder.remedy(path.name)}") from None


def _parse(content: bytes) -> Certificate:
    try:
        return Certificate.from_json(from_json(content))
    except InputError as error:  # about the tables of the automaton
        raise Rejected(f"it is malformed ({error})") from None


def _check_unproven(certificate: Certificate) -> Certificate:
    """Demand that a certificate without a proof does not claim one. Its reason is not verified."""
    failures = (statements.COUNTEREXAMPLE, statements.NOT_FINITE, statements.NOT_LEARNED)
    honest = certificate.proven is False and certificate.verdict in failures
    honest = honest and certificate.statement.startswith(statements.NOTHING)
    demand(honest, "it claims a proof and has none")
    return certificate


def _check_trial(certificate: Certificate, read: Read, task: Task, trial: Trial) -> Certificate:
    """Test every input of a length again."""
    weights = certificate.weights
    demand(weights is not None and weights.file == checkpoint.WEIGHTS, "it is about another file")
    assert certificate.trial is not None
    assert weights is not None
    _check_digest(read(checkpoint.WEIGHTS), weights.sha256, checkpoint.WEIGHTS)
    try:
        score = trial(certificate.trial.length)
    except InputError as error:
        raise Rejected(f"it cannot be checked ({error})") from None
    expected = statements.state_trial(task, certificate.trial.length, score)
    demand(certificate.trial == expected.trial, "other inputs are answered wrongly")
    return _check_claim(certificate, expected)


def _check_digest(content: bytes, sha256: str, name: str) -> None:
    same = hashlib.sha256(content).hexdigest() == sha256
    demand(same, f"{name} is not the file with the SHA-256 that was certified")


def _check_claim(certificate: Certificate, expected: Certificate) -> Certificate:
    """Demand the words that follow from the facts."""
    demand(certificate.verdict == expected.verdict, "its verdict is not what is proven")
    demand(certificate.proven is expected.proven, "it claims no proof, or one that it has not")
    demand(certificate.statement == expected.statement, "its statement is not what is proven")
    return certificate


def _verify_proof(certificate: Certificate, read: Read, model: dict[str, Any], task: Task) -> Verified:
    weights, proof, automaton = certificate.weights, certificate.proof, certificate.automaton
    demand(weights is not None and weights.file == checkpoint.LOCKED, "it is about another file")
    assert weights is not None
    assert automaton is not None
    alone = certificate.trial is None and certificate.counterexample is None
    demand(alone, "it has a proof, and a trial or a counterexample beside it")
    content = read(checkpoint.LOCKED)
    _check_digest(content, weights.sha256, checkpoint.LOCKED)
    model = complete(model)
    demand(certificate.model is not None, "it does not name its model")
    assert certificate.model is not None
    stated = complete(certificate.model)
    demand(stated == model, "config.json describes another model than the certified one")
    sizes = (len(task.vocab), len(task.classes))
    demand((model["vocab_size"], model["num_classes"]) == sizes, "the model does not fit the task")
    stored, counts = load(content), isinstance(proof, CountingProof)
    check_weights(stored, model, counts)
    tensors = {name: value.astype(np.float64) for name, value in stored.items()}
    small = all((np.abs(each) <= 2.0**20).all() for each in tensors.values())
    demand(small, "a weight is beyond ±2^20, or not a number")
    names = (automaton.vocab, automaton.classes, automaton.words)
    demand(names == (task.vocab, task.classes, task.words), "its automaton has other names")
    scores = None
    if isinstance(proof, CountingProof):
        assert isinstance(automaton, CounterAutomaton)
        _verify_counting(proof, automaton, tensors, model, task)
    else:
        assert isinstance(proof, FiniteProof)
        assert isinstance(automaton, Automaton)
        scores = verify_finite(proof, automaton, tensors, model, task)
    disagreeing: tuple[int, ...] = ()
    if task.oracle is None:
        try:
            disagreeing = tuple(_disagreeing_rows(automaton, task))
        except InputError as error:  # the file is gone, or has changed
            return Verified(statements.state_unchecked(certificate, task, str(error)), scores)
    expected = statements.state_proof(task, proof, automaton, disagreeing)
    if certificate.verdict == statements.NOT_CHECKED:  # it was saved while the file was gone
        names = ("verdict", "proven", "statement", "rows", "disagreeing")
        claims = {name: getattr(expected, name) for name in names}
        return Verified(replace(certificate, **claims), scores)
    rows = (certificate.rows, certificate.disagreeing) == (expected.rows, disagreeing)
    demand(rows, f"the rows that disagree are others: {len(disagreeing):,}")
    return Verified(_check_claim(certificate, expected), scores)


# Machines that count.


def _verify_counting(
    proof: CountingProof,
    automaton: CounterAutomaton,
    tensors: dict[str, Array],
    model: dict[str, Any],
    task: Task,
) -> None:
    kinds, table, tokens = [cell["kind"] for cell in model["cells"]], proof.counting, len(task.vocab)
    fits = kinds in (["counter", "switch"], ["counter", "router"]) and model["decoder"] == "linear"
    demand(fits, "its model is not one that counts")
    network = CountingNetwork(tensors, kinds[1] == "router", table.window)
    knowledge = Knowledge(proof.ranges, tokens)
    unit = largest_factor(network, knowledge)
    exact = table.unit == unit and proof.exact_up_to == ExactCounts(2**24 // unit, 2**62)
    demand(exact, "its counts are exact elsewhere")
    step = network_step(table, network, knowledge)
    control = automaton.control
    small = CounterTable(automaton.increments, automaton.window, control.transitions, control.outputs)
    starts = (0, control.start)
    check_closed(proof.pairs, knowledge, tokens, starts, step, small.stepping(knowledge))
    same = close(network.gate, proof.gate) and close(network.margin, proof.margin)
    demand(same and proof.doubt == DOUBT, "it has other margins than this locked model")
    demand(0 <= proof.search.rounds < 2**31, "its search is malformed")
    demand(proof.search.control in CONTROLS[kinds[1]], "its search is malformed")
    if task.oracle is None:
        demand(proof.task_ranges is None and not proof.task_pairs, "its task has no machine")
        return
    if proof.task_ranges is None:
        raise Rejected("it has no ranges of its task")
    knowledge = Knowledge(proof.task_ranges, tokens)
    start, theirs = _task_stepping(task, knowledge)
    mine = small.stepping(knowledge)
    check_closed(proof.task_pairs, knowledge, tokens, (control.start, start), mine, theirs)


def _task_stepping(task: Task, knowledge: Knowledge) -> tuple[int, Step]:
    """Return the start and the step of the task's machine, declared or explored."""
    if task.counting is not None:
        own, control = task.counting, task.counting.control
        table = CounterTable(own.increments, own.window, control.transitions, control.outputs)
        return control.start, table.stepping(knowledge)
    demand(task.finite, "its task declares no machine")
    states = [task.start()]
    numbers, following = {states[0]: 0}, []
    for state in states:  # which grows
        following.append([task.step(state, token) for token in range(len(task.vocab))])
        for after in following[-1]:
            if after not in numbers:
                numbers[after] = len(states)
                states.append(after)
        demand(len(states) <= MOST_STATES, "its task has too many states")

    def step(state: int, token: int, values: tuple[int, ...]) -> tuple[int, int | None]:
        after = following[state][token]
        return numbers[after], task.answer(after)

    return 0, step


# Data files.


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
