"""Proving a model that counts: as it is, and where that fails, simplified."""

import copy
from collections.abc import Callable

from torch import Generator

from csprop.automata.walk import Difference
from csprop.data.examples import UNLABELLED
from csprop.nn.model import CSP
from csprop.proof.attempts import check_classes, check_learned
from csprop.proof.counting_proof import CONTROLS, ROUTER, prove_counting, proven
from csprop.proof.document import NOTHING, Certificate, refused
from csprop.proof.examples import Labelled
from csprop.proof.limits import NotFinite
from csprop.proof.locked_counter import LockedCounter
from csprop.proof.simplify import simplify
from csprop.tasks.base import Task
from csprop.training.scores import percent

FEWER_ERRORS = 0.75
"""A model that makes more than this share of the errors of the commonest class has not learned."""


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
