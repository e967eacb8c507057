"""The result of a run, as result.json stores it."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from csprop.training.scores import Score, interval


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
    """Number of these that a machine with counters contradicted then."""
    finite_misses: int
    """The same for a finite machine."""


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
