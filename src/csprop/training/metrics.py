"""Accuracy, F1 and loss of a model, on given examples, drawn sequences or every input."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from csprop.data.examples import UNLABELLED, Examples, Steps
from csprop.errors import InputError
from csprop.nn.kernel import every_score, row_scores
from csprop.tasks.base import Task, every_sequence
from csprop.training.scores import EVALUATION, Sampling, Score, check_exhaustive, scored
from csprop.training.seeding import generator

if TYPE_CHECKING:
    from csprop.training.distributed import Group

# Tokens in one forward pass: bounds the memory at any length.
WINDOW = 1 << 15


def score(model: nn.Module, examples: Examples, group: "Group | None" = None) -> Score:
    """The score of a model on the answers of some examples.

    Args:
        model: the model.
        examples: what it should answer.
        group: processes that share the examples, if there are several.

    Raises:
        InputError: there are no examples.
    """
    if group is not None:
        return _shared(model, examples, group)
    given = [batch.labels[batch.answers] for batch in examples.windows(WINDOW)]
    if not given:
        raise InputError("there are no examples to score: give at least one")
    labels, logits, end = torch.cat(given), torch.empty(0), 0
    for batch, some in zip(examples.windows(WINDOW), given, strict=True):
        found = _answers(model, batch)
        if not end:  # room for all: small pieces kept between large ones that are freed waste memory
            logits = found.new_empty(len(labels), found.shape[1])
        logits[end : end + len(some)] = found
        end += len(some)
    return _score(logits, labels)


def _shared(model: Any, examples: Examples, group: "Group") -> Score:
    def own() -> Iterator[tuple[NDArray[np.float64], NDArray[np.int64]]]:
        yield np.empty((0, model.config.num_classes)), np.empty(0, np.int64)  # there may be no other
        for batch in group.own(examples).windows(WINDOW):
            yield _answers(model, batch).double().numpy(), batch.labels[batch.answers].numpy()

    return scored(own(), lambda sums: group.total(torch.from_numpy(sums)).numpy())


def exhaustive(model: nn.Module, task: Task, length: int, *, positions: bool = False) -> Score:
    """The score of a model on every input of a length.

    Args:
        model: the model.
        task: what it should answer.
        length: of the inputs.
        positions: count the answers after all tokens, not only those after the last one.

    Raises:
        InputError: the task is not defined at the length, or there are too many inputs.
    """
    check_exhaustive(task, length)
    if positions:
        return _everywhere(model, task, every_sequence(len(task.vocab), length))
    logits = every_score(model, len(task.vocab), length)
    if logits is None:
        return score(model, task.labelled(every_sequence(len(task.vocab), length)))
    return _score(logits, task.every_label(length))


def sampled(model: Any, task: Task, length: int, count: int, generator: Generator) -> Score:
    """Return the score on drawn sequences; long ones go in pieces, with their state carried on."""
    tokens = task.sample(count, length, generator)
    labels = task.labels(tokens)[:, -1]
    given = torch.full_like(tokens, UNLABELLED)
    given[:, -1] = labels
    if (found := row_scores(model, tokens, given)) is not None:
        return _score(found, labels)
    state, last = model.initial_state(count), torch.empty(0)
    for part in tokens.split(max(1, WINDOW // count), dim=1):
        last, state = _advance(model, part, state)
    return _score(last, labels)


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

    Raises:
        InputError: the task is not defined at the length.
    """
    count, draws = sampling.count(length), generator(seed, "eval", length)
    if positions:
        return _everywhere(model, task, task.sample(count, length, draws))
    if hasattr(model, "initial_state"):  # any length: the state is carried from window to window
        return sampled(model, task, length, count, draws)
    return score(model, task.labelled(task.sample(count, length, draws)))


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
        for i, scores in zip(group, _logits(model, tokens), strict=True):
            answers[i] = scores[len(rows[i]) - 1]
    return [answers[i] for i in range(len(rows))]


def _rows(length: int) -> int:
    return max(1, WINDOW // max(1, length))


@torch.no_grad()
def _logits(model: nn.Module, tokens: Tensor) -> Tensor:
    return model(tokens)


def _answers(model: Any, batch: Steps) -> Tensor:
    """Return the scores at the answers; a long row goes in pieces, with its state carried on."""
    labels = batch.labels.masked_fill(~batch.answers, UNLABELLED)
    if (found := row_scores(model, batch.tokens, labels)) is not None:
        return found
    pieces = _pieces(model, batch.tokens, batch.answers)
    return torch.cat([logits[answers] for logits, answers in pieces])


def _pieces(model: Any, tokens: Tensor, beside: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the scores after every token of rows, and the values beside them, (B, T, …), in pieces."""
    if tokens.numel() <= WINDOW or not hasattr(model, "initial_state"):
        yield _logits(model, tokens), beside
        return
    state = model.initial_state(len(tokens))
    for part, other in zip(tokens.split(WINDOW, 1), beside.split(WINDOW, 1), strict=True):
        logits, state = _carried(model, part, state)
        yield logits, other


def _everywhere(model: Any, task: Task, tokens: Tensor) -> Score:
    """Return the score after every token; rows are scored in parts, and their scores are not kept."""

    def parts() -> Iterator[tuple[NDArray[np.float64], NDArray[np.int64]]]:
        for some in tokens.split(_rows(tokens.shape[1])):
            for logits, labels in _pieces(model, some, task.labels(some)):
                known = labels != UNLABELLED
                yield logits[known].double().numpy(), labels[known].numpy()

    return scored(parts())


@torch.no_grad()
def _carried(model: Any, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    return model(tokens, state, return_state=True)


def _advance(model: Any, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    logits, state = _carried(model, tokens, state)
    return logits[:, -1], state


def _score(logits: Tensor, labels: Tensor) -> Score:
    predicted, classes = logits.argmax(dim=1), logits.shape[1]
    right = predicted == labels
    hits = torch.bincount(labels[right], minlength=classes)
    # 2·hits + misses + false alarms: how often a class is true, plus how often it is predicted.
    mentions = torch.bincount(labels, minlength=classes) + torch.bincount(predicted, minlength=classes)
    f1 = torch.where(mentions > 0, 2 * hits / mentions.clamp(min=1), 1.0)
    occurring = mentions > 0
    return Score(
        accuracy=float(right.double().mean()),
        f1=float(f1[1] if classes == 2 else f1[occurring].mean()),
        wrong=int((~right).sum()),
        count=len(labels),
        loss=float(F.cross_entropy(logits, labels)),
    )
