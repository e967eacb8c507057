"""Accuracy, F1 and loss of a model, on rows, drawn sequences or every input, and at its end."""

import copy
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from csprop.data.examples import UNLABELLED, Examples, Padded, Steps
from csprop.errors import InputError
from csprop.nn.kernel import every_score, row_scores
from csprop.nn.model import CSP
from csprop.tasks.base import Task, every_sequence
from csprop.training.config import RunConfig, names_of
from csprop.training.labelled import Labelled
from csprop.training.pruned import Pruned, all_heads, is_rotor, settle_heads
from csprop.training.scores import (
    EVALUATION,
    MOST_INPUTS,
    Exhaustive,
    Majority,
    Result,
    Sampling,
    Score,
    check_exhaustive,
    interval,
    make_score,
    scored,
)  # fmt: skip
from csprop.training.seeding import generator
from csprop.training.stored import Trained

if TYPE_CHECKING:
    from csprop.progress import Epoch
    from csprop.training.loop import Trainer

WINDOW = 1 << 15
"""Tokens in one forward pass: bounds the memory at any length."""


def score(model: nn.Module, examples: Examples) -> Score:
    """Return the score of a model on the answers of some examples."""
    answers = [batch.labels[batch.answers] for batch in examples.windows(WINDOW)]
    if not answers:
        raise InputError("there are no examples to score: give at least one")
    labels, logits, end = torch.cat(answers), torch.empty(0), 0
    for batch in examples.windows(WINDOW):
        scores = _answers(model, batch)
        if not end:  # room for all: small pieces kept between large ones that are freed waste memory
            logits = scores.new_empty(len(labels), scores.shape[1])
        logits[end : end + len(scores)] = scores
        end += len(scores)
    return _score(logits, labels)


def exhaustive(model: nn.Module, task: Task, length: int, *, positions: bool = False) -> Score:
    """Return the score of a model on every input of a length, with the arguments of `at_length`."""
    check_exhaustive(task, length)
    if positions:
        return _everywhere(model, task, every_sequence(len(task.vocab), length))
    logits = every_score(model, len(task.vocab), length)
    if logits is None:
        return score(model, task.labelled(every_sequence(len(task.vocab), length)))
    return _score(logits, task.every_label(length))


def at_length(
    model: Any,
    task: Task,
    length: int,
    seed: int = 0,
    sampling: Sampling = EVALUATION,
    *,
    positions: bool = False,
) -> Score:
    """Return the score on random sequences of a length; the same seed draws the same sequences.

    Args:
        model: the model.
        task: the task, which has the right answers.
        length: the length of the sequences.
        seed: the seed of the draws.
        sampling: decides the number of sequences.
        positions: count the answers after all tokens, not only those after the last one.
    """
    tokens = task.sample(sampling.count(length), length, generator(seed, "eval", length))
    if positions:
        return _everywhere(model, task, tokens)
    if not hasattr(model, "initial_state"):
        return score(model, task.labelled(tokens))
    labels, last = task.labels(tokens), torch.zeros_like(tokens, dtype=torch.bool)
    last[:, -1] = True
    steps = Padded(tokens, labels, last, torch.full((len(tokens),), length))
    return _score(_answers(model, steps), labels[:, -1])


def finish(
    trainer: "Trainer", task: Task, config: RunConfig, metrics: "list[Epoch]", every_input: bool
) -> Trained:
    """Return the result of a completed training: the model with its best weights, and its scores."""
    trainer.model.load_state_dict(trainer.best_weights)
    trainer.model.eval()
    trainer.model.zero_grad()  # the gradients of the last step are of no further use
    _settle(trainer)
    trainer.model.trained_as, trainer.model.names = config, names_of(task)
    recipe, best = config.recipe, trainer.best
    held = 0 < recipe.hold <= trainer.streak
    ended = f"the target held for {recipe.hold} epochs" if held else "the target was reached"
    at_target = [row["epoch"] for row in metrics if row["accuracy"] >= trainer.target]
    every, answers = None, task.total and task.oracle is not None
    if every_input and answers and len(task.vocab) ** recipe.length <= MOST_INPUTS:
        every = exhaustive(trainer.model, task, recipe.length)
    majority, learned = _judge(trainer, task)
    result = Result(
        epochs=trainer.epoch,
        ended=ended if trainer.epoch < recipe.epochs else "the last epoch",
        first_epoch_at_target=min(at_target, default=None),
        best_epoch=best["epoch"],
        accuracy=best["accuracy"],
        f1=best["f1"],
        learned=learned,
        majority=majority,
        parameters=sum(p.numel() for p in trainer.model.parameters()),
        exhaustive=None if every is None else Exhaustive(**asdict(every), length=recipe.length),
    )
    return Trained(trainer.model, task, config, metrics, result, training=trainer.training)


@torch.no_grad()
def _settle(trainer: "Trainer") -> None:
    """Round the angles of a rotor that reached its target, and drop what its answers do not need."""
    model, best = trainer.model, trainer.best["accuracy"]
    if isinstance(model, CSP) and all_heads(model):
        before = copy.deepcopy(model.state_dict())
        settle_heads(model, Labelled.of(trainer.training, trainer.recipe), trainer.seed)
        if score(model, trainer.held_out).accuracy < best:
            model.load_state_dict(before)
    if best >= trainer.target and is_rotor(model) and list(model.buffers()):
        simple = Pruned.whole(model).simplify(Labelled.of(trainer.training, trainer.recipe)).model
        if score(simple, trainer.held_out).accuracy >= best:
            model.load_state_dict(simple.state_dict())


def _judge(trainer: "Trainer", task: Task) -> tuple[Majority, bool]:
    """Return the majority class, and True if the accuracy is above its share by more than chance."""
    counts = torch.zeros(len(task.classes), dtype=torch.int64)
    for steps in trainer.held_out.windows():
        counts += steps.labels[steps.answers].bincount(minlength=len(counts))
    total, most = int(counts.sum()), int(counts.max())
    accuracy = trainer.best["accuracy"]
    # The best of many epochs is lucky: the probability of an error is shared among them.
    low, _ = interval(round(accuracy * total), total, 0.01 / trainer.epoch)
    majority = Majority(task.classes[int(counts.argmax())], most / total)
    return majority, accuracy == 1 or low > majority.share


@torch.no_grad()
def last_logits(model: nn.Module, rows: list[list[int]]) -> list[Tensor]:
    """Return the scores after the last token of each row; rows of similar length form batches."""
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    answers: dict[int, Tensor] = {}
    while order:
        longest = len(rows[order[-1]])
        group = [order.pop() for _ in range(min(len(order), _rows(longest)))]
        tokens = torch.zeros(len(group), longest, dtype=torch.int64)
        for place, i in enumerate(group):
            tokens[place, : len(rows[i])] = torch.tensor(rows[i])
        for i, scores in zip(group, model(tokens), strict=True):
            answers[i] = scores[len(rows[i]) - 1]
    return [answers[i] for i in range(len(rows))]


def _rows(length: int) -> int:
    return max(1, WINDOW // max(1, length))


def _answers(model: Any, batch: Steps) -> Tensor:
    """Return the scores at the answers; of several rows in pieces, only the last steps count."""
    labels = batch.labels.masked_fill(~batch.answers, UNLABELLED)
    if (scores := row_scores(model, batch.tokens, labels)) is not None:
        return scores
    pieces = _pieces(model, batch.tokens, batch.answers)
    return torch.cat([logits[answers] for logits, answers in pieces])


@torch.no_grad()
def _pieces(model: Any, tokens: Tensor, beside: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the scores after every token of rows, and the values beside them, (B, T, …).

    Long rows go in pieces, with their state carried on.
    """
    if tokens.numel() <= WINDOW or not hasattr(model, "initial_state"):
        yield model(tokens), beside
        return
    state, size = model.initial_state(len(tokens)), max(1, WINDOW // len(tokens))
    for part, other in zip(tokens.split(size, 1), beside.split(size, 1), strict=True):
        logits, state = model(part, state, return_state=True)
        yield logits, other


def _everywhere(model: Any, task: Task, tokens: Tensor) -> Score:
    """Return the score after every token; rows are scored in parts, and their scores are not kept."""

    def parts() -> Iterator[tuple[NDArray[np.float64], NDArray[np.int64]]]:
        for some in tokens.split(_rows(tokens.shape[1])):
            for logits, labels in _pieces(model, some, task.labels(some)):
                known = labels != UNLABELLED
                yield logits[known].double().numpy(), labels[known].numpy()

    return scored(parts())


def _score(logits: Tensor, labels: Tensor) -> Score:
    predicted = logits.argmax(dim=1)
    every = (labels[predicted == labels], labels, predicted)
    hits, true, answered = (each.bincount(minlength=logits.shape[1]).numpy() for each in every)
    return make_score(hits, true + answered, float(F.cross_entropy(logits, labels)))
