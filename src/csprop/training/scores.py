"""The scores of a model, the number of sequences to measure them on, and the result of a run."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from statistics import NormalDist
from typing import Any, Literal

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


def scored(parts: Iterable[tuple[NDArray[np.float64], NDArray[np.int64]]]) -> Score:
    """Return the score of a model from parts: its scores (N, classes), and the right classes (N,)."""
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
    return make_score(hits, mentions, loss / max(1, int(mentions.sum()) // 2))


# The result of a run, as result.json stores it.


@dataclass(frozen=True)
class Majority:
    """The most frequent class of the held-out answers, and its share."""

    name: str
    share: float


@dataclass(frozen=True)
class Exhaustive(Score):
    """The score on every input of a length."""

    length: int


@dataclass(frozen=True, kw_only=True)
class Preference:
    """The numbers by which a machine that counts was chosen over a finite one."""

    counters: int
    bits: int
    """Of the machine and of the labels that it contradicts."""
    finite_states: int | None
    """Of the finite machine with the shortest description; None if there is no such machine."""
    finite_bits: int | None
    """As `bits`."""
    longer: int
    """Labels of rows that are longer than those to which machines were fitted at first."""
    misses: int
    finite_misses: int
    """Number of these that a machine with counters, or a finite one, contradicted then."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The numbers behind a learned machine."""

    rows: int
    agreed: int
    """Rows of a data file on which the machine agrees with every label; for a task, 0."""
    held_out: int
    """Labels to which no candidate was fitted."""
    held_out_right: int
    """Number of these that the chosen candidate predicts."""
    held_out_states: int
    """The number of its states."""
    same: bool
    """True if it is the machine that was fitted to all rows in the end."""
    majority: float
    """The share of the majority class among the labels."""
    unseen_transitions: int = 0
    """Transitions that no row takes."""
    counting: Preference | None = None
    """The reason why the machine counts; None for a finite machine."""

    @property
    def accuracy(self) -> float:
        """On held-out labels."""
        return self.held_out_right / self.held_out

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval of the accuracy."""
        return interval(self.held_out_right, self.held_out)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers, for result.json and `--json`."""
        document = {each.name: getattr(self, each.name) for each in fields(Evidence)}
        document |= {"interval": list(self.interval), "commonest": document.pop("majority")}
        counting = document.pop("counting")
        return document | ({} if counting is None else {"counting": asdict(counting)})

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "Evidence":
        """Return the evidence that `to_json` described; raise an error if it is malformed."""
        numbers = dict(values)
        del numbers["interval"]
        if "counting" in numbers:
            numbers["counting"] = Preference(**numbers["counting"])
        known = Evidence(majority=numbers.pop("commonest"), **numbers)
        counts = (known.rows, known.agreed, known.held_out, known.held_out_right, known.held_out_states)
        sound = all(type(count) is int and count >= 0 for count in counts) and known.held_out
        sound = sound and known.rows >= known.agreed and known.held_out >= known.held_out_right
        if not (sound and 0 <= known.majority <= 1):
            raise ValueError("the numbers contradict each other")
        return known


@dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of training, or of writing a machine into a model."""

    epochs: int
    """The number of epochs; 0 if the model was made from a machine."""
    ended: str
    """The reason why training ended."""
    first_epoch_at_target: int | None = None
    best_epoch: int = 0
    accuracy: float
    """On held-out answers, after the best epoch; for a machine, on the rows or on drawn sequences."""
    f1: float
    parameters: int
    exhaustive: Exhaustive | None = None
    """The score on every input of the trained length, if there are few enough."""
    learned: bool | None = None
    """True if the accuracy is above the share of the majority class by more than chance explains."""
    majority: Majority | None = None
    verdict: Evidence | None = None
    """The numbers behind a machine of `csprop learn`."""

    @property
    def made(self) -> Literal["trained", "learned", "compiled"]:
        """The origin of the model; if it was not trained, a machine was written into its weights."""
        if self.epochs:
            return "trained"
        return "compiled" if self.verdict is None else "learned"

    def to_json(self) -> dict[str, Any]:
        """Return the content of result.json."""
        document = asdict(self)
        del document["majority"]
        if self.majority is not None:
            document["commonest"] = {"class": self.majority.name, "share": self.majority.share}
        if self.verdict is not None:
            document["verdict"] = self.verdict.to_json()
        absent = [name for name in ("learned", "verdict") if document[name] is None]
        return {name: value for name, value in document.items() if name not in absent}

    @staticmethod
    def from_json(values: Any) -> "Result":
        """Return the result that `to_json` described; raise a ValueError if it is malformed."""
        try:
            known = dict(values)
            if known["exhaustive"] is not None:
                known["exhaustive"] = Exhaustive(**known["exhaustive"])
            if "commonest" in known:
                majority = known.pop("commonest")
                known["majority"] = Majority(majority["class"], majority["share"])
            if known.get("verdict") is not None:
                known["verdict"] = Evidence.from_json(known["verdict"])
            result = Result(**known)
            every = result.exhaustive
            shown = [result.accuracy, result.f1, result.epochs, result.best_epoch]
            shown += [] if every is None else [every.wrong, every.count]
            if all(map(math.isfinite, shown)):
                return result
        except (LookupError, TypeError, AttributeError, OverflowError):
            pass
        raise ValueError("the result is malformed")
