"""From a trained model to a certificate."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.automata.walk import OUTSIDE, Difference, Endless, Walk, moves
from csprop.cells.options import BUILT_IN
from csprop.cells.router import RouterBlock
from csprop.data.examples import UNLABELLED
from csprop.data.names import split_symbols
from csprop.errors import InputError, about
from csprop.nn.compile import codes, compile_counter, compile_machine
from csprop.nn.layer import CSPLayer
from csprop.nn.model import CSP
from csprop.progress import lines
from csprop.proof.attempts import (
    LEARNED,
    ROUNDS,
    Attempts,
    certify_counter,
    certify_counting,
    check_classes,
    check_learned,
)  # fmt: skip
from csprop.proof.certificate import Certificate, Counterexample
from csprop.proof.examples import Labelled
from csprop.proof.heads import has_heads_alone, read_machine
from csprop.proof.limits import NotFinite
from csprop.proof.lock import RADII, lock_at
from csprop.proof.locked_counter import is_counter
from csprop.proof.models import FromLayer, Stepwise
from csprop.proof.prove import domain, prove
from csprop.proof.statements import state_failure, state_trial
from csprop.tasks import resolve
from csprop.tasks.base import Task
from csprop.training.batches import training_data
from csprop.training.metrics import exhaustive
from csprop.training.pruned import drop_heads

LENGTH = 16
"""The length of examples that are drawn for a model without training data, or the task's next one."""


def certify(
    model: Stepwise,
    task: str | Path | Task,
    examples: Labelled | None = None,
    *,
    rounds: int = ROUNDS,
    depth: int | None = None,
    seed: int | None = None,
    on_round: Callable[[str], None] = lambda line: None,
    progress: bool = True,
) -> Certificate:
    """Lock a model and prove that it computes the task's function. The model itself is not changed.

    Args:
        model: a model that csprop trained, or an adapter of `csprop.proof.models`.
        task: a task, its name, or a data file.
        examples: the training data, on which the locked model may not make more errors. By default,
            a model that csprop trained on this task uses its own training data; for any other model
            sequences of length 16 are drawn.
        rounds: how many times to train further and try again if the model does not lock; a
            `FromLayer` is not trained further.
        depth: for a task with infinitely many states, such as parenthesis, the largest depth of the
            inputs to cover; by default half the length of the examples.
        seed: the seed of everything random here; by default the seed of the training, or 0.
        on_round: is called with a line about each round.
        progress: show a bar, in a notebook or on a terminal.

    Returns:
        The certificate, whether or not anything is proven.

    Raises:
        InputError: the model or the options do not fit the task.
    """
    task = resolve(task)
    _check_total(task)
    if isinstance(model, CSPLayer) or not (hasattr(model, "initial_state") and hasattr(model, "step")):
        raise InputError(
            f"the model, a {type(model).__name__}, has no initial_state() and step() for tokens: wrap "
            "it in FromLayer, FromRNN or FromStep of csprop.proof.models"
        )
    if isinstance(model, CSP):
        for cell in model.config.layers:
            if type(cell) not in BUILT_IN.values():
                raise InputError(
                    f"a model with the cell {cell.kind} cannot be certified: the verifier knows only "
                    "the cells of csprop"
                )
    trained_as: Any = getattr(model, "trained_as", None)
    if trained_as is not None and trained_as.task != task.describe():
        trained_as = None
    if examples is None and trained_as is not None:
        examples = Labelled.of(training_data(task, trained_as)[0])
    elif examples is None:
        generator = Generator().manual_seed(seed or 0)
        examples = Labelled.of(task.examples(task.samples, task.length_from(LENGTH), generator))
    if seed is None:
        seed = 0 if trained_as is None else int(trained_as.seed)
    if depth is not None and depth < 1:
        raise InputError("write 1 or more", "depth", depth)
    if is_counter(model):
        if depth is not None:
            raise InputError("a model that counts is proven at every depth: leave out the depth")
        with lines(f"certify {task.name}", on_round, progress) as report:
            return certify_counting(copy.deepcopy(model), task, examples, rounds, seed, report)
    heads = has_heads_alone(model)
    if heads and depth is not None:
        raise InputError("a tracker is proven at every depth: leave out the depth")
    if not (task.finite or heads):
        depth = examples.tokens.shape[1] // 2 if depth is None else depth
        _check_bounded(task, depth)
        examples = _within(task, depth, examples)
    elif depth is not None:
        raise InputError(f"{task.name}: has finitely many states: leave out the depth")
    model = copy.deepcopy(model)
    if heads:
        with lines(f"certify {task.name}", on_round, progress) as report:
            return certify_heads(model, task, examples, report)
    if isinstance(model, FromLayer):
        rounds = 0  # the embedding is given, and must not be trained
        for cell in model.cells:
            if isinstance(cell, RouterBlock):
                cell.harden()  # the choice between two places that are alike may depend on rounding
    with lines(f"certify {task.name}", on_round, progress) as report:
        return Attempts(model, task, examples, depth, seed, report).run(rounds)


def _check_total(task: Task) -> None:
    """Refuse a task that has an answer for some sequences only."""
    if not task.total:
        raise InputError(
            f"{task.name}: no proof exists for such a task, which neither a finite machine nor "
            "counters solve: measure its accuracy by csprop eval"
        )


def _check_bounded(task: Task, depth: int) -> None:
    """Refuse a task with infinitely many states that are not deeper than `depth`."""
    inputs = domain(task, depth)
    try:
        Walk(inputs.start).run(lambda states: [moves(inputs, each) for each in states])
    except Endless as error:
        raise InputError(
            f"{task.name}: {error} at depth {depth}: its `size` must grow with what a state holds"
        ) from None


def _within(task: Task, depth: int, examples: Labelled) -> Labelled:
    """Return the examples without the labels from the point at which a sequence exceeds the depth."""
    labels, inputs = examples.labels.clone(), domain(task, depth)
    for row, tokens in enumerate(examples.tokens.tolist()):
        state = inputs.start
        for place, token in enumerate(tokens):
            state = inputs.step(state, token)
            if state is OUTSIDE:
                labels[row, place:] = UNLABELLED
                break
    return Labelled(examples.tokens, labels)


def certify_length(model: Any, task: Task, length: int) -> Certificate:
    """Test a model on every input of one length, at most 2^20. Nothing is locked."""
    if task.oracle is None:
        raise InputError(
            f"{task.name}: a data file gives the correct class of its rows only: leave out the length"
        )
    _check_total(task)
    with about("length", length):
        return state_trial(task, length, exhaustive(model, task, length))


def certify_at(model: Stepwise, codes: Sequence[Tensor], task: Task) -> Certificate:
    """Prove a model with known states of each layer, (S, M, D), such as a compiled one."""
    everything = torch.ones(len(codes), codes[0].shape[2], dtype=torch.bool)
    try:
        locked, measured = lock_at(copy.deepcopy(model), codes, everything, domain(task, None))
    except NotFinite as failure:
        return state_failure(task, failure)
    outcome = prove(locked, measured, task, None, rounds=0, radius=RADII[0])
    return state_failure(task, outcome) if isinstance(outcome, Difference) else outcome


def certify_heads(
    model: Any, task: Task, examples: Labelled, report: Callable[[str], None]
) -> Certificate:
    """Read the machine of a network of trackers, write it into a router, and prove this one."""
    model.eval().requires_grad_(False)
    check_classes(model(examples.tokens[:1]).shape[2], task)
    before = examples.judge(model(examples.tokens)).misses
    labels = int((examples.labels != UNLABELLED).sum())
    try:
        if before > (1 - LEARNED) * labels:
            raise NotFinite(f"it is wrong on {before:,} of {labels:,} training labels")
        drop_heads(model, examples)
        certificate = certify_machine(read_machine(model, len(task.vocab)), task)[1]
        if certificate.locked is not None:
            check_learned(certificate.locked, task, examples, before)
        if certificate.counterexample is not None:
            _check_wrong(model, task, certificate.counterexample)
    except (NotFinite, InputError) as failure:
        certificate = state_failure(task, NotFinite(str(failure)))
    report(certificate.statement)
    return certificate


def _check_wrong(model: Any, task: Task, example: Counterexample) -> None:
    """Raise NotFinite if the network itself is right after a counterexample of its machine."""
    symbols = split_symbols(example.sequence, task.words)
    scores = model(torch.tensor([[task.vocab.index(each) for each in symbols]]))
    if task.classes[int(scores[0, -1].argmax())] == example.right:
        raise NotFinite(f"its places are not whole, and made whole they err after {example.sequence}")


def certify_machine(machine: Machine | CounterMachine, task: Task) -> tuple[CSP, Certificate]:
    """Return a model that has a machine in its weights, and its proof against a task."""
    classes = len(task.classes)
    if isinstance(machine, CounterMachine):
        model = compile_counter(machine, classes)
        return model, certify_counter(model, task)
    model = compile_machine(machine, classes)
    return model, certify_at(model, [codes(model)], task)
