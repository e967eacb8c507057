"""Repeated attempts to lock a model and prove it correct.

In each round the model is simplified, locked and compared with the task. If it does not lock, or the
locked model is wrong, it is trained towards a finite set of states before the next round. A router is
finite as it is; its table is repaired by its training rows. A model that counts is given fewer counters
and switches in each round. A model that has not learned its training data is not trained further: it
needs other options, not more rounds.

The labels of a data file may be partly wrong, so a locked model may disagree with some of its rows. It
must be better than the majority class by a clear margin.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, nn

from csprop.automata.walk import Difference
from csprop.data.examples import UNLABELLED
from csprop.errors import InputError
from csprop.nn.model import CSP
from csprop.proof.certificate import Certificate
from csprop.proof.examples import Labelled
from csprop.proof.limits import NotFinite, NotLearned
from csprop.proof.lock import RADII, lock
from csprop.proof.locked import LockedModel
from csprop.proof.locked_counter import LockedCounter
from csprop.proof.places import is_router, repair
from csprop.proof.prove import domain, prove, prove_counting
from csprop.proof.simplify import simplify
from csprop.proof.statements import MADE_ANEW, NOTHING, reason, state_failure
from csprop.proof.tune import draw_in, tune
from csprop.tasks.base import Task
from csprop.training.pruned import Pruned, follow, is_rotor
from csprop.training.scores import interval, percent

ROUNDS = 8  # the default number of rounds of further training
SLACK = 0.002
"""Fraction of the training labels that may be misclassified in between; in the end there may be no
more errors than at first."""
LEARNED = 0.9  # fraction of the training labels that a model must have right to be trained further
FEWER_ERRORS = 0.75
"""A model that counts and makes more than this share of the errors of the majority class has not
learned."""


class Attempts:
    """All attempts at one model; `run` makes them and returns a certificate."""

    def __init__(
        self,
        model: Any,
        task: Task,
        examples: Labelled,
        depth: int | None,
        seed: int,
        on_round: Callable[[str], None],
    ) -> None:
        self.task, self.examples, self.depth, self.on_round = task, examples, depth, on_round
        self.generator, self.domain = Generator().manual_seed(seed), domain(task, depth)
        self.whole = Pruned.whole(model)
        if isinstance(model, nn.Module):
            model.eval().requires_grad_(False)
        check_classes(follow(self.whole.model, self.whole.kept, examples.tokens[:1, :1]).shape[2], task)
        if self.whole.judge(examples).misses:
            self.whole = self.whole.anchor(examples)
        self.misses = self.whole.judge(examples).misses
        labels = int((examples.labels != UNLABELLED).sum())
        self.accuracy, self.most = 1 - self.misses / labels, self.misses + int(SLACK * labels)
        self.failure: NotFinite | Difference | None = None
        self.loose: Sequence[torch.Tensor] | None = None
        """Codes that are too close to each other, from the last attempt."""

    def run(self, rounds: int) -> Certificate:
        """Try to lock and prove the model, with at most `rounds` rounds of further training."""
        model = self.whole
        if certificate := self._attempt(model, 0, RADII[:1]):
            return certificate
        for number in range(rounds + 1):
            simple = self._simpler(model)
            if certificate := self._attempt(simple, number):
                return certificate
            self.on_round(f"round {number}: {simple}: {reason(self.task, self.failure)}")
            if number == rounds or not self._is_trainable(model.model):
                break
            if self.accuracy < LEARNED:
                self.on_round(_not_learned(self.accuracy))
                break
            model = self._tuned(simple)
        return state_failure(self.task, self.failure)

    def _simpler(self, simple: Pruned) -> Pruned:
        """Return the model without the channels or places that the answers do not need."""
        if simple.judge(self.examples).misses > self.most:  # pruning would keep its errors
            return simple
        if is_router(simple.model):
            if self.accuracy < LEARNED or isinstance(self.failure, NotLearned):
                return simple
            model = copy.deepcopy(simple.model)
            return replace(simple, model=model, kept=repair(model, self.examples))
        return simple.simplify(self.examples)

    def _is_trainable(self, model: Any) -> bool:
        trainable = isinstance(model, nn.Module) and any(True for _ in model.parameters())
        return is_rotor(model) or (trainable and self.loose is not None)

    def _tuned(self, simple: Pruned) -> Pruned:
        """Train further, if possible with a third fewer channels."""
        if not is_rotor(simple.model):
            assert self.loose is not None
            draw_in(simple.model, simple.kept, self.loose, self.examples, self.generator)
            return simple
        for fewer in (simple.thin(self.examples), simple):
            tune(fewer, self.examples, self.generator)
            if fewer.judge(self.examples).misses <= self.most:
                break
        return fewer

    def _attempt(
        self, simple: Pruned, number: int, radii: Sequence[float] = RADII
    ) -> Certificate | None:
        """Lock and prove with these channels; if that fails, remember the reason."""
        self.loose = None
        for radius in radii:
            try:
                locked, measured = lock(simple.model, simple.kept, radius, self.domain)
                check_learned(locked, self.task, self.examples, self.misses)
                outcome = prove(locked, measured, self.task, self.depth, number, radius)
            except NotFinite as failure:
                self.loose = failure.codes or self.loose
                if not isinstance(self.failure, Difference):
                    self.failure = failure
                continue
            if isinstance(outcome, Certificate):
                return outcome
            self.failure = outcome
        return None


def certify_counting(
    model: CSP,
    task: Task,
    examples: Labelled,
    rounds: int,
    seed: int,
    on_round: Callable[[str], None],
) -> Certificate:
    """Prove a model that counts; if that fails, simplify it, with another draw in each round."""
    model.eval().requires_grad_(False)
    check_classes(model.config.num_classes, task)
    misses = examples.judge(model(examples.tokens)).misses
    labels = examples.labels[examples.labels != UNLABELLED]
    learned = misses <= (len(labels) - int(labels.bincount().max())) * FEWER_ERRORS
    generator, certificate = Generator().manual_seed(seed), certify_counter(model, task)
    for number in range(rounds + 1):
        if number:
            simpler = copy.deepcopy(model)
            trained = simplify(simpler, examples, generator)
            if trained is None:
                on_round("no choice of few counters tells its training labels apart")
                break
            certificate = certify_counter(simpler, task, number, "trained" if trained else MADE_ANEW)
        if certificate.locked is not None:
            try:
                check_learned(certificate.locked, task, examples, misses)
                return certificate
            except NotFinite as failure:
                certificate = state_failure(task, failure)
        when = "as trained" if number == 0 else f"round {number}"
        on_round(f"{when}: {certificate.statement.removeprefix(NOTHING)}")
        if model.routers:  # only switches are simplified
            break
        if not learned:
            on_round(_not_learned(1 - misses / len(labels)))
            break
    return certificate


def certify_counter(model: CSP, task: Task, rounds: int = 0, control: str = "trained") -> Certificate:
    """Prove a model that counts as it is; the certificate has its rounds and its kind of control."""
    try:
        control = "router" if model.routers else control
        outcome = prove_counting(LockedCounter(model), task, rounds, control)
    except NotFinite as failure:
        return state_failure(task, failure)
    return state_failure(task, outcome) if isinstance(outcome, Difference) else outcome


def _not_learned(accuracy: float) -> str:
    return f"it is right on {percent(accuracy)} of its training labels: not learned"


def check_classes(scores: int, task: Task) -> None:
    """Raise an InputError for a model with another number of scores than a task has classes."""
    if scores != len(task.classes):
        raise InputError(
            f"the model has {scores} scores, but {task.name} has {len(task.classes)} classes: the "
            "numbers must be equal"
        )


def check_learned(locked: LockedModel, task: Task, examples: Labelled, before: int) -> None:
    """Refuse a locked model that misses more labels than before, or learned nothing of a data file."""
    misses = examples.judge(locked(examples.tokens)).misses
    if misses > before:
        raise NotFinite(f"the locked model misclassifies {misses:,} training labels, {before:,} before")
    labels = examples.labels[examples.labels != UNLABELLED]
    right, best = len(labels) - misses, int(labels.bincount().max())
    no_better = misses and interval(right, len(labels))[0] <= best / len(labels)
    if task.oracle is None and no_better:
        raise NotLearned(
            f"the locked model is right on {right:,} of {len(labels):,} training labels, and the "
            f"majority class alone on {best:,}"
        )
