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

    The accuracy lies outside of it with a probability of at most `doubt`.
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
            f"{task.name}: most inputs have no answer, so not all can be tested: draw a sample"
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


def make_score(hits: NDArray[np.int64], mentions: NDArray[np.int64], loss: float) -> Score:
    """Return the score of right answers by class, and of answers that are, or should be, this class.

    F1 is 2·hits / (2·hits + misses + false alarms), and the denominator is `mentions`.
    """
    count, right = int(mentions.sum()) // 2, int(hits.sum())
    if not count:
        raise InputError("there are no examples to score: give at least one")
    f1 = np.where(mentions > 0, 2 * hits / mentions.clip(min=1), 1.0)
    f1 = f1[1] if len(f1) == 2 else f1[mentions > 0].mean()
    return Score(right / count, float(f1), count - right, count, loss)


def scored(
    parts: Iterable[tuple[NDArray[np.float64], NDArray[np.int64]]],
    everywhere: Callable[[NDArray[np.float64]], NDArray[np.float64]] = lambda sums: sums,
) -> Score:
    """Return the score of a model.

    Args:
        parts: its scores (N, classes), and the right classes (N,).
        everywhere: adds the sums of other processes, which have other parts.
    """
    hits = mentions = np.zeros(0, np.int64)  # by class
    loss = 0.0
    for logits, labels in parts:
        classes, predicted = logits.shape[1], logits.argmax(axis=1)
        if not len(hits):
            hits = mentions = np.zeros(classes, np.int64)
        hits = hits + np.bincount(labels[predicted == labels], minlength=classes)
        mentions = mentions + sum(np.bincount(each, minlength=classes) for each in (labels, predicted))
        largest = logits.max(axis=1)
        total = np.log(np.exp(logits - largest[:, None]).sum(axis=1)) + largest
        loss += float((total - logits[np.arange(len(labels)), labels]).sum())
    sums = everywhere(np.concatenate([hits, mentions, [loss]], dtype=np.float64))
    hits, mentions = sums[:-1].astype(np.int64).reshape(2, -1)
    return make_score(hits, mentions, float(sums[-1]) / max(1, int(mentions.sum()) // 2))
