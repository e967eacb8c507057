"""Repeated attempts to lock a model and prove it correct.

In each round the model is simplified, locked and compared with the task. If it does not lock, or the
locked model is wrong, it is trained towards a finite set of states before the next round. A router is
finite as it is; its table is repaired by its training rows. A model that has not learned its training
data is not trained further: it needs other options, not more rounds.

The labels of a data file may be partly wrong, so a locked model may disagree with some of its rows. It
must be better than the commonest class by a clear margin.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Generator, nn

from csprop.automata.walk import Difference
from csprop.data.examples import UNLABELLED
from csprop.errors import InputError
from csprop.proof.document import Certificate, proven, reason, refused
from csprop.proof.examples import Labelled
from csprop.proof.limits import NotFinite, NotLearned, Tightness, moves_of
from csprop.proof.lock import lock
from csprop.proof.locked import Locked
from csprop.proof.locked_counter import LockedCounter
from csprop.proof.margins import margin
from csprop.proof.places import is_router, repair
from csprop.proof.prove import domain, prove
from csprop.proof.prune import follow, prune, thinned
from csprop.proof.search import RADII
from csprop.proof.tune import (
    draw_in,
    frozen_scores,
    is_rotor,
    round_angles,
    straighten,
    tune,
)
from csprop.tasks.base import Task
from csprop.training.scores import interval, percent

ROUNDS = 8
"""The default number of rounds of further training."""
SLACK = 0.002
"""Fraction of the training labels that may be misclassified in between; in the end there may be no
more errors than at first."""
LEARNED = 0.9
"""Fraction of the training labels that a model must have right to be trained further."""


class _Simple(NamedTuple):
    """A model, the channels in use, and for a rotor the channels that rotate."""

    model: Any
    kept: torch.Tensor
    turning: torch.Tensor

    def scores(self, kept: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """The scores after every token, with only these channels in use."""
        if is_rotor(self.model):
            return frozen_scores(self.model, kept, self.turning, tokens)
        return follow(self.model, kept, tokens)

    def __str__(self) -> str:
        kept, turning = int(self.kept.sum()), int((self.kept & self.turning).sum())
        return f"{kept} channels" + (f", {turning} rotating" if is_rotor(self.model) else "")


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
        self.model, self.task, self.examples, self.depth = model, task, examples, depth
        self.generator, self.on_round = Generator().manual_seed(seed), on_round
        if isinstance(model, nn.Module):
            model.eval().requires_grad_(False)
        first = self.model.initial_state()[0]
        scores = follow(
            self.model, torch.ones(first.shape[0], first.shape[2]) > 0, examples.tokens[:1, :1]
        )
        check_classes(scores.shape[2], task)
        self.everything = torch.ones(first.shape[0], first.shape[2], dtype=torch.bool)
        self.misses = self._misses(_Simple(model, self.everything, self.everything))
        labels = examples.labels[examples.labels != UNLABELLED]
        self.labels = len(labels)
        self.slack = int(SLACK * self.labels)
        self.failure: NotFinite | Difference | None = None
        self.loose: Sequence[torch.Tensor] | None = None
        """Codes that were found but are too close to each other."""
        self.domain = domain(task, depth)

    def _misses(self, simple: "_Simple") -> int:
        return self.examples.judge(simple.scores(simple.kept, self.examples.tokens)).misses

    @property
    def _right(self) -> float:
        """The share of the training labels that the model gives."""
        return 1 - self.misses / self.labels

    def run(self, rounds: int) -> Certificate:
        """Try to lock and prove the model, with at most `rounds` rounds of further training."""
        if (found := self._attempt(self.model, self.everything, 0, RADII[:1])) is not None:
            return found
        model, kept, turning = self.model, self.everything, self.everything
        for number in range(rounds + 1):
            simple = _Simple(model, kept, turning)
            if (
                self._misses(simple) <= self.misses + self.slack
            ):  # else pruning would preserve its errors
                simple = self._simpler(simple)
            if (found := self._attempt(simple.model, simple.kept, number)) is not None:
                return found
            self.on_round(f"round {number}: {simple}: {reason(self.task, self.failure)}")
            if number == rounds or not self._can_go_on(model):
                break
            if self._right < LEARNED:
                share = percent(self._right)
                self.on_round(f"it is right on {share} of its training labels: not learned")
                break
            model, kept, turning = self._tuned(simple)
        return refused(self.task, self.failure)

    def _simpler(self, of: "_Simple") -> "_Simple":
        """The model without the channels, rotations or places that the answers do not need."""
        model, kept, turning = of
        if is_router(model):
            if self._right < LEARNED or isinstance(self.failure, NotLearned):
                return of
            model = copy.deepcopy(model)
            return _Simple(model, repair(model, self.examples), turning)
        kept = prune(of.scores, self.examples, kept)
        if is_rotor(model):
            model = copy.deepcopy(model)
            turning = straighten(model, kept, turning, self.examples)
            round_angles(model, kept, turning, self.examples)
        return _Simple(model, kept, turning)

    def _can_go_on(self, model: Any) -> bool:
        trainable = isinstance(model, nn.Module) and any(True for _ in model.parameters())
        return is_rotor(model) or (trainable and self.loose is not None)

    def _tuned(self, simple: "_Simple") -> "_Simple":
        """Train further, if possible with a third fewer channels, or with fewer that rotate."""
        model, kept, turning = simple
        if not is_rotor(model):
            assert self.loose is not None
            draw_in(model, kept, self.loose, self.examples, self.generator)
            return simple

        def still(turning: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
            return frozen_scores(model, kept, turning, tokens)

        fewer = thinned(simple.scores, self.examples, kept)
        for mine, turns in ((fewer, turning), (kept, thinned(still, self.examples, kept & turning))):
            thinner = _Simple(copy.deepcopy(model), mine, turns)
            tune(*thinner, self.examples, self.generator)
            if self._misses(thinner) <= self.misses + self.slack:
                return thinner
        tune(*simple, self.examples, self.generator)
        return simple

    def _attempt(
        self, model: Any, kept: torch.Tensor, number: int, radii: Sequence[float] = RADII
    ) -> Certificate | None:
        """Lock and prove with these channels; if that fails, remember the reason."""
        self.loose = None
        for radius in radii:
            try:
                locked, measured = self._lock(model, kept, radius)
                outcome = prove(locked.machine, self.task, self.depth)
            except NotFinite as failure:
                self.loose = failure.codes or self.loose
                if not isinstance(self.failure, Difference):
                    self.failure = failure
                continue
            if isinstance(outcome, Difference):
                self.failure = outcome
                continue
            search: dict[str, Any] = {"rounds": number, "radius": radius}
            lead = margin(locked, moves_of(locked, self.domain))
            return proven(self.task, self.depth, locked, measured, lead, outcome, search)
        return None

    def _lock(self, model: Any, kept: torch.Tensor, radius: float) -> tuple[Locked, list[Tightness]]:
        locked, measured = lock(model, kept, radius, self.domain)
        check_learned(locked, self.task, self.examples, self.misses)
        return locked, measured


def check_classes(scores: int, task: Task) -> None:
    """Raise an InputError for a model with another number of scores than a task has classes."""
    if scores != len(task.classes):
        raise InputError(
            f"the model has {scores} scores, but {task.name} has {len(task.classes)} classes: the "
            "numbers must be equal"
        )


def check_learned(locked: Locked | LockedCounter, task: Task, examples: Labelled, before: int) -> None:
    """Refuse a locked model that has lost what was learned, or learned nothing of a data file.

    Args:
        locked: the locked model.
        task: the task.
        examples: the training data.
        before: how many labels the model missed before it was locked.

    Raises:
        NotFinite: it misses more labels than before.
        NotLearned: it is no better than one that always gives the commonest class of the file.
    """
    misses = examples.judge(locked(examples.tokens)).misses
    if misses > before:
        raise NotFinite(f"the locked model misclassifies {misses:,} training labels, {before:,} before")
    labels = examples.labels[examples.labels != UNLABELLED]
    right, best = len(labels) - misses, int(labels.bincount().max())
    no_better = misses and interval(right, len(labels))[0] <= best / len(labels)
    if task.oracle is None and no_better:
        raise NotLearned(
            f"the locked model is right on {right:,} of {len(labels):,} training labels, and the "
            f"commonest class alone on {best:,}"
        )
