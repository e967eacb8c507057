"""The accuracy of a model as text and interval, and the number of sequences to measure it on."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from csprop.errors import InputError
from csprop.tasks.base import Task

MOST_INPUTS = 1 << 20
"""The largest number of inputs that are tested one by one."""


@dataclass(frozen=True)
class Score:
    """Accuracy and F1 over some answers. F1 is for class 1 of two classes, else the mean."""

    accuracy: float
    f1: float
    wrong: int
    count: int
    loss: float


def percent(accuracy: float) -> str:
    """Return an accuracy as text: 100% only if nothing was wrong, and 0% only if nothing was right."""
    if accuracy in (0, 1):
        return f"{accuracy:.0%}"
    return f"{min(max(100 * accuracy, 0.1), 99.9):.1f}%"


def interval(right: int, count: int, doubt: float = 0.05) -> tuple[float, float]:
    """Return Wilson's interval for the accuracy of a model with `right` of `count` answers right.

    Args:
        right: the number of right answers.
        count: the number of answers, at least 1.
        doubt: the probability that the accuracy lies outside of the interval, at most.
    """
    z = NormalDist().inv_cdf(1 - doubt / 2)
    share, scale = right / count, 1 + z * z / count
    middle = (share + z * z / (2 * count)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    # The ends are exact where all answers are wrong, or right; rounding would miss them.
    return (middle - half if right else 0.0), (middle + half if right < count else 1.0)


def check_exhaustive(task: Task, length: int) -> None:
    """Refuse a length at which `exhaustive` is impossible."""
    task.check_length(length)
    if not task.total:
        raise InputError(
            f"{task.name}: most inputs have no answer, so that they cannot all be tested: draw a sample"
        )
    longest = int(math.log(MOST_INPUTS, max(2, len(task.vocab))) + 1e-9)
    if length > longest:
        raise InputError(
            f"length {length} has {len(task.vocab)}^{length} inputs: "
            f"at most {MOST_INPUTS:,} can be tested, so write a length up to {longest}"
        )


@dataclass(frozen=True)
class Sampling:
    """The number of sequences to draw at a length: about `tokens` tokens in all, within bounds."""

    tokens: int
    fewest: int
    most: int

    def count(self, length: int) -> int:
        """Return the number of sequences to draw at a length."""
        return min(self.most, max(self.fewest, self.tokens // length))


EVALUATION = Sampling(tokens=1 << 22, fewest=8, most=2000)
"""The samples of `csprop eval` and of the report."""


def scored(
    parts: Iterable[tuple[NDArray[np.float64], NDArray[np.int64]]],
    everywhere: Callable[[NDArray[np.float64]], NDArray[np.float64]] = lambda sums: sums,
) -> Score:
    """The score of a model, of its scores (N, classes) and the right classes (N,) in some parts.

    Args:
        parts: scores and classes.
        everywhere: adds the sums of other processes, which have other parts.

    Raises:
        InputError: there are no answers.
    """
    hits = mentions = np.zeros(0, np.int64)  # by class
    count, loss = 0, 0.0
    for logits, labels in parts:
        classes, predicted = logits.shape[1], logits.argmax(axis=1)
        if not count:
            hits = mentions = np.zeros(classes, np.int64)
        right = predicted == labels
        hits = hits + np.bincount(labels[right], minlength=classes)
        # 2·hits + misses + false alarms: how often a class is true, plus how often it is predicted.
        mentions = mentions + sum(np.bincount(each, minlength=classes) for each in (labels, predicted))
        largest = logits.max(axis=1)
        total = np.log(np.exp(logits - largest[:, None]).sum(axis=1)) + largest
        loss += float((total - logits[np.arange(len(labels)), labels]).sum())
        count += len(labels)
    sums = everywhere(np.concatenate([hits, mentions, [count, loss]], dtype=np.float64))
    hits, mentions = sums[:-2].astype(np.int64).reshape(2, -1)
    count, loss = int(sums[-2]), float(sums[-1])
    if not count:
        raise InputError("there are no examples to score: give at least one")
    f1 = np.where(mentions > 0, 2 * hits / mentions.clip(min=1), 1.0)
    right = int(hits.sum())
    return Score(
        accuracy=right / count,
        f1=float(f1[1] if len(f1) == 2 else f1[mentions > 0].mean()),
        wrong=count - right,
        count=count,
        loss=loss / count,
    )
