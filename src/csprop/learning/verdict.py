"""What can be said of a learned machine, in plain words."""

from dataclasses import dataclass
from typing import Any

from csprop.exact.document import Certificate
from csprop.training.checkpoint import SUSPECTS
from csprop.training.metrics import interval, percent


@dataclass(frozen=True)
class Verdict:
    """How good a machine is, and how that is known."""

    source: str
    clear: bool
    """Whether it is better than no machine by a clear margin."""
    states: int
    rows: int
    agreed: int
    """Rows of a data file with all labels right; for a task, 0."""
    held_out: int
    """Labels that no candidate was fitted to."""
    held_out_right: int
    """How many of them the chosen candidate has right."""
    held_out_states: int
    """The number of its states."""
    same: bool
    """Whether it is the machine that was fitted to all rows in the end."""
    commonest: float
    """The share of the commonest class among the labels."""
    is_task: bool
    certificate: Certificate | None = None
    unseen: frozenset[tuple[int, int]] = frozenset()
    """States and tokens of transitions that no row takes: they are guesses."""

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
                f"{self.source}: no machine is clearly better than none; always saying the commonest "
                f"class is right on {percent(self.commonest)} of the labels"
            )
        size = f"{self.source}: a machine of {counted(self.states, 'state')}"
        if self.is_task:
            assert self.certificate is not None
            return f"{size}, {self.certificate.verdict}"
        every = self.agreed == self.rows
        agreed = f"all {self.rows:,}" if every else f"{self.agreed:,} of {self.rows:,}"
        return f"{size}, which agrees with {agreed} rows"

    @property
    def text(self) -> str:
        """The verdict as a paragraph."""
        if not self.clear:
            return f"{self.sentence}."
        low, high = map(percent, self.interval)
        who = "it" if self.same else f"a machine of {counted(self.held_out_states, 'state')}"
        said = [
            f"{self.sentence}.",
            f"Found without the held-out rows, {who} is right on {self.held_out_right:,} of "
            f"{self.held_out:,} of their labels ({percent(self.accuracy)}; 95% interval {low} to "
            f"{high}). Always saying the commonest class is right on {percent(self.commonest)} of all "
            "labels.",
        ]
        if self.unseen:
            verb = "occurs" if len(self.unseen) == 1 else "occur"
            transitions = counted(len(self.unseen), "transition")
            said.append(f"{transitions} {verb} in no row: there the machine is a guess.")
        if self.rows > self.agreed and not self.is_task:
            disagreeing = counted(self.rows - self.agreed, "row")
            verb = "disagrees" if self.rows - self.agreed == 1 else "disagree"
            said.append(f"{disagreeing} {verb} with it, and may be labelled wrongly: see {SUSPECTS}.")
        if self.is_task and self.certificate is not None:
            said.append(self.certificate.statement)
        return " ".join(said)

    def as_json(self) -> dict[str, Any]:
        """The numbers, for result.json."""
        return {
            "rows": self.rows,
            "agreed": self.agreed,
            "held_out": self.held_out,
            "held_out_right": self.held_out_right,
            "held_out_states": self.held_out_states,
            "same": self.same,
            "interval": list(self.interval),
            "commonest": self.commonest,
            "unseen_transitions": len(self.unseen),
        }


def counted(number: int, what: str) -> str:
    """A number of things: 1 state, 2 states."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
