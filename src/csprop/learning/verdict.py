"""What can be said of a learned machine, in plain words."""

from dataclasses import dataclass
from typing import Any

from csprop.exact.document import Certificate
from csprop.learning.suspects import FILE
from csprop.training.metrics import interval, percent


@dataclass(frozen=True)
class Verdict:
    """How good a machine is, and how that is known."""

    source: str
    clear: bool
    """Whether it is better than the commonest class by a clear margin."""
    states: int
    rows: int
    agreed: int
    """Rows of a data file with all labels right; for a task, 0."""
    held_out: int
    """Labels that no candidate was fitted to while it was chosen."""
    held_out_right: int
    commonest: float
    """The share of the commonest class among the labels."""
    is_task: bool
    certificate: Certificate | None = None

    @property
    def accuracy(self) -> float:
        """On held-out labels."""
        return self.held_out_right / self.held_out

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval of the accuracy."""
        return interval(self.held_out_right, self.held_out)

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        if not self.clear:
            return (
                f"{self.source}: no machine is clearly better than always saying the commonest class, "
                f"which is right on {percent(self.commonest)} of the labels"
            )
        size = f"{self.source}: a machine of {self.states} state{'s' if self.states > 1 else ''}"
        if self.is_task:
            assert self.certificate is not None
            return f"{size}, {self.certificate.verdict}"
        agreed = (
            f"all {self.rows:,}" if self.agreed == self.rows else f"{self.agreed:,} of {self.rows:,}"
        )
        return f"{size}, which agrees with {agreed} rows"

    @property
    def text(self) -> str:
        """The verdict as a paragraph."""
        low, high = map(percent, self.interval)
        said = [
            f"{self.sentence}.",
            f"On held-out labels it is right on {self.held_out_right:,} of {self.held_out:,} "
            f"({percent(self.accuracy)}; 95% interval {low} to {high}); the commonest class "
            f"alone on {percent(self.commonest)}.",
        ]
        if self.clear and self.rows > self.agreed and not self.is_task:
            disagreeing = self.rows - self.agreed
            rest = "1 row disagrees" if disagreeing == 1 else f"{disagreeing:,} rows disagree"
            said.append(f"{rest} with it, and may be labelled wrongly: see {FILE}.")
        if self.clear and self.is_task and self.certificate is not None:
            said.append(self.certificate.statement)
        return " ".join(said)

    def as_json(self) -> dict[str, Any]:
        """The numbers, for result.json."""
        return {
            "rows": self.rows,
            "agreed": self.agreed,
            "held_out": self.held_out,
            "held_out_right": self.held_out_right,
            "interval": list(self.interval),
            "commonest": self.commonest,
        }
