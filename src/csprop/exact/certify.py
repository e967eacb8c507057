"""From a trained model to a certificate: lock it, prove it, and say what was proven."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Generator

from csprop.automata.walk import OUTSIDE
from csprop.errors import InputError
from csprop.exact import document
from csprop.exact.attempts import ROUNDS, Attempts
from csprop.exact.document import Certificate
from csprop.exact.examples import Labelled
from csprop.exact.models import Stepwise
from csprop.exact.prove import domain
from csprop.tasks import resolve
from csprop.tasks.base import UNLABELLED, Task
from csprop.training.config import RunConfig
from csprop.training.metrics import exhaustive
from csprop.training.session import training_data

LENGTH = 16


def certify(
    model: Stepwise,
    task: str | Path | Task,
    examples: Labelled | None = None,
    *,
    rounds: int = ROUNDS,
    depth: int | None = None,
    seed: int | None = None,
    on_round: Callable[[str], None] = lambda line: None,
) -> Certificate:
    """Lock a model and prove that it computes the task's function. The model itself is left as it is.

    Args:
        model: what csprop trained, or an adapter of `csprop.exact.models`.
        task: a task, its name, or a data file.
        examples: what the model was trained on: it must not get worse on them. Without any, a model
            that csprop trained on this task gets its own training data; for another one sequences of
            length 16 are drawn.
        rounds: how often to tune the model and try again, where it does not lock.
        depth: of a task that has infinitely many states, such as parenthesis, inputs no deeper than
            this are considered.
        seed: of what is drawn on the way; by default the one the model was trained with, or 0.
        on_round: is told how each round went.

    Raises:
        InputError: the model or the options do not fit the task.
    """
    task = resolve(task)
    if not (hasattr(model, "initial_state") and hasattr(model, "step")):
        raise InputError(
            f"a {type(model).__name__} has no single step: wrap it in csprop.exact.models.FromRNN or "
            "FromStep"
        )
    trained_as: Any = getattr(model, "trained_as", None)
    if trained_as is not None and trained_as.task != task.describe():
        trained_as = None
    if examples is None:
        examples = _drawn(task, seed or 0) if trained_as is None else _trained_on(task, trained_as)
    if seed is None:
        seed = 0 if trained_as is None else int(trained_as.seed)
    if depth is not None and depth < 1:
        raise InputError(f"depth={depth}: write 1 or more")
    if not task.finite:
        depth = examples.tokens.shape[1] // 2 if depth is None else depth
        examples = _within(task, depth, examples)
    elif depth is not None:
        raise InputError(f"{task.name}: has finitely many states: leave the depth out")
    return Attempts(copy.deepcopy(model), task, examples, depth, seed, on_round).run(rounds)


def certify_length(model: Any, task: Task, length: int) -> Certificate:
    """Every input of one length, tried: for any model, locked or not."""
    if task.oracle is None:
        raise InputError(f"{task.name}: the truth of every input is not known: leave the length out")
    return document.of_length(task, length, exhaustive(model, task, length))


def _drawn(task: Task, seed: int) -> Labelled:
    """Labelled sequences: those of the file, or as many as training draws."""
    return Labelled.of(task.examples(task.samples, LENGTH, Generator().manual_seed(seed)))


def _trained_on(task: Task, config: RunConfig) -> Labelled:
    return Labelled.of(training_data(task, config)[0])


def _within(task: Task, depth: int, examples: Labelled) -> Labelled:
    """Without the labels of sequences once they have gone too deep."""
    labels, inputs = examples.labels.clone(), domain(task, depth)
    for row, tokens in enumerate(examples.tokens.tolist()):
        state = inputs.start
        for place, token in enumerate(tokens):
            state = inputs.step(state, token)
            if state is OUTSIDE:
                labels[row, place:] = UNLABELLED
                break
    return Labelled(examples.tokens, labels)
