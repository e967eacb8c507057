"""The proof of a model that counts, and its certificate.

It has two parts, each a set of pairs as `automata.comparison` describes it. The first one says that the
weights compute what a small machine does: a pair is what the layer above the counters holds, a state
of the small machine, and what is known of the counts. The second one says that this machine answers as
the task's own machine does. A data file has no machine of its own, so there is no second part: the rows
with which the machine disagrees are listed.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Generator

from csprop.automata.comparison import Invariant, Undecided, compare_counting
from csprop.automata.counter_automaton import CounterAutomaton
from csprop.automata.counting import MOST_COUNT, CounterMachine
from csprop.automata.names import size
from csprop.automata.walk import Difference
from csprop.exact.attempts import check_classes, check_learned
from csprop.exact.document import (
    NOT_CHECKED,
    NOTHING,
    TRUSTED,
    Certificate,
    claim_of_rows,
    head,
    listed,
    refused,
)
from csprop.exact.examples import Labelled
from csprop.exact.locked import NotFinite
from csprop.exact.locked_counter import LockedCounter
from csprop.exact.margins import DOUBT
from csprop.exact.simplify import simplify
from csprop.nn.model import CSP
from csprop.tasks.base import UNLABELLED, Task
from csprop.tasks.disagreeing import disagreeing
from csprop.training.metrics import percent

EVERY_DEPTH = "proven for all lengths and depths"
MOST_KNOWN = 2**20
"""Bounds and periods of the pairs are below this."""
FEWER_ERRORS = 0.75
"""A model that makes more than this share of the errors of the commonest class has not learned."""
CONTROLS = ("trained", "made anew")
"""Where the weights of switches and decoder come from: from the model, perhaps trained further, or from
the training rows alone."""
ROUTER = "router"
"""In its place, of a model with a router, of which nothing is changed."""


@dataclass(frozen=True)
class CountingProof:
    """A small machine, why the weights compute it, and why it answers as the task does."""

    automaton: CounterAutomaton
    inner: Invariant
    """Of the machine of the weights and the small one."""
    outer: Invariant | None
    """Of the small machine and the task's; None for a data file."""


def prove_counting(locked: LockedCounter, task: Task) -> CountingProof | Difference:
    """Prove that a model that counts answers as a task does, at every length and depth.

    Returns:
        The proof, or a shortest counterexample. For a data file, always a proof.

    Raises:
        NotFinite: neither a proof nor a counterexample was found.
    """
    automaton = locked.automaton(task.vocab, task.classes, task.words).reduced()
    outer = None if task.oracle is None else compare_counting(automaton, reference(task))
    if isinstance(outer, Difference):
        return outer
    inner = compare_counting(locked.machine, automaton)
    for found in (outer, inner):
        if isinstance(found, Undecided):
            raise NotFinite(f"the comparison is undecided: {found.reason}")
    assert isinstance(inner, Invariant)
    assert not isinstance(outer, Undecided)
    for ranges in (each.ranges for each in (outer, inner) if each is not None):
        if max((*ranges.bounds, *ranges.periods), default=0) >= MOST_KNOWN:
            raise NotFinite("the proof needs to know counts too far from 0")
    return CountingProof(automaton, inner, outer)


def reference(task: Task) -> CounterMachine:
    """The task's own machine; one with finitely many states has no counters.

    Raises:
        NotFinite: the task has infinitely many states and declares no machine.
    """
    if task.counting is not None:
        return task.counting
    if not task.finite:
        raise NotFinite(f"{task.name} declares no machine that counts: make it a CountingTask")
    return CounterMachine(increments=((),) * len(task.vocab), window=0, control=task.machine)


def attempts(
    model: CSP,
    task: Task,
    examples: Labelled,
    rounds: int,
    seed: int,
    on_round: Callable[[str], None],
) -> Certificate:
    """Prove a model that counts; if that fails, simplify it, and try again.

    Args:
        model: the model, which may be changed.
        task: the task.
        examples: the training data, on which the locked model may not make more errors.
        rounds: how many times to simplify it, each time with another draw.
        seed: of what is drawn.
        on_round: is called with a line about each round that did not lead to a proof.
    """
    model.eval().requires_grad_(False)
    check_classes(model.config.num_classes, task)
    misses = examples.judge(model(examples.tokens)).misses
    labels = examples.labels[examples.labels != UNLABELLED]
    learned = misses <= (len(labels) - int(labels.bincount().max())) * FEWER_ERRORS
    generator, found = Generator().manual_seed(seed), certify_counter(model, task)
    for number in range(rounds + 1):
        if number:
            simpler = copy.deepcopy(model)
            kept = simplify(simpler, examples, generator)
            if kept is None:
                on_round("no choice of few counters tells its training labels apart")
                break
            found = certify_counter(simpler, task, number, CONTROLS[0] if kept else CONTROLS[1])
        if found.locked is not None:
            try:
                check_learned(found.locked, task, examples, misses)
            except NotFinite as failure:
                found = refused(task, failure)
            else:
                return found
        when = "as trained" if number == 0 else f"round {number}"
        on_round(f"{when}: {found.statement.removeprefix(NOTHING)}")
        if model.routers:  # only switches are simplified
            break
        if not learned:
            right = percent(1 - misses / len(labels))
            on_round(f"it is right on {right} of its training labels: not learned")
            break
    return found


def certify_counter(model: CSP, task: Task, rounds: int = 0, control: str = CONTROLS[0]) -> Certificate:
    """Prove a model that counts as it is. Nothing is searched or trained.

    Args:
        model: the model.
        task: the task.
        rounds: how many rounds of simplification there were, for the certificate.
        control: one of `CONTROLS`, for the certificate of a model with switches.

    Returns:
        The certificate, whether or not anything is proven.
    """
    try:
        locked = LockedCounter(model)
        outcome = prove_counting(locked, task)
    except NotFinite as failure:
        return refused(task, failure)
    if isinstance(outcome, Difference):
        return refused(task, outcome)
    search = {"rounds": rounds, "control": ROUTER if model.routers else control}
    return proven(task, locked, outcome, search)


def proven(
    task: Task, locked: LockedCounter, proof: CountingProof, search: dict[str, Any]
) -> Certificate:
    """The certificate of a locked model that counts.

    Raises:
        InputError: the task is a data file, and its rows cannot be read any more.
    """
    file = task.oracle is None
    rows = [each.row + 1 for each in disagreeing(proof.automaton, task.rows)] if file else []
    verdict, statement = _claim(task, locked, proof, len(rows))
    if search["control"] == CONTROLS[1]:
        statement += " Its switches and its decoder were made anew from the training rows."
    document = head(task, verdict, statement, proven=True) | _measured(task, locked, proof, search)
    if rows:
        document |= {"rows": len(task.rows), "disagreeing": rows}
    return Certificate(verdict, True, statement, document, locked, proof.automaton)


def unchecked(
    task: Task, locked: LockedCounter, proof: CountingProof, search: dict[str, Any], why: str
) -> Certificate:
    """The certificate of a locked model whose task is a file that cannot be read any more."""
    statement = (
        f"{NOTHING}the locked model computes what {_machine(proof)} does, and whether that answers as "
        f"its file does cannot be checked ({why})."
    )
    document = head(task, NOT_CHECKED, statement, proven=False)
    document |= _measured(task, locked, proof, search)
    return Certificate(NOT_CHECKED, False, statement, document, locked, proof.automaton, why)


def _measured(
    task: Task, locked: LockedCounter, proof: CountingProof, search: dict[str, Any]
) -> dict[str, Any]:
    """What is known of a locked model that counts by itself."""
    counting = locked.counting
    holds = list(dict.fromkeys(counting.states))  # one of them may have several answers
    numbers = [holds.index(state) for state in counting.states]
    pairs = dict.fromkeys((numbers[mine], theirs, known) for mine, theirs, known in proof.inner.pairs)
    document = {
        "counting": {
            "unit": counting.unit,
            "increments": [list(row) for row in locked.machine.increments],
            "window": locked.machine.window,
            "holds": [list(state) for state in holds],
            "decisions": [
                [holds.index(state), token, list(values), holds.index(after), answer]
                for (state, token, values), (after, answer) in counting.decided.items()
            ],
        },
        "automaton": proof.automaton.to_json(),
        "ranges": _ranges(proof.inner),
        "pairs": [list(pair) for pair in pairs],
        "gate": counting.gate,
        "margin": counting.lead,
        "doubt": DOUBT,
        "exact_up_to": {"network": _most(locked), "locked": MOST_COUNT},
        "search": search,
        "minimal_states": len(proof.automaton),
        "trusted": TRUSTED if task.oracle is not None else TRUSTED[1:],
    }
    if proof.outer is not None:
        document["task_ranges"] = _ranges(proof.outer)
        document["task_pairs"] = [list(pair) for pair in proof.outer.pairs]
    return document


def _ranges(invariant: Invariant) -> dict[str, Any]:
    ranges = invariant.ranges
    return {
        "forms": [list(form) for form in ranges.forms],
        "bounds": list(ranges.bounds),
        "periods": list(ranges.periods),
        "relations": [list(relation) for relation in ranges.relations],
    }


def _claim(
    task: Task, locked: LockedCounter, proof: CountingProof, disagreeing: int
) -> tuple[str, str]:
    """Verdict and statement of a proof."""
    exact = (
        "Counts are exact up to 2^62 in the locked model, and up to "
        f"{_most(locked):,} in the network's own float32; both refuse to go beyond."
    )
    if task.oracle is None:
        machine = f"The locked model computes what {_machine(proof)} does, at every length."
        verdict, statement = claim_of_rows(task, machine, disagreeing)
        return verdict, f"{statement} {exact}"
    return EVERY_DEPTH, (
        f"For every sequence of one or more tokens {listed(task.vocab)}, of any length and any depth, "
        f"the locked model's answer after each token is that of the task {task.name!r} "
        f"({task.description}). {exact}"
    )


def _most(locked: LockedCounter) -> int:
    """The largest count that the network holds, in float32, in which its own numbers are larger."""
    return 2**24 // locked.counting.unit


def _machine(proof: CountingProof) -> str:
    return f"a machine of {size(len(proof.automaton), proof.automaton.counters)}"
