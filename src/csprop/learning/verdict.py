"""What can be said of a learned machine, in plain words."""

from dataclasses import asdict, dataclass
from typing import Any

from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.automata.names import describe_size
from csprop.proof.certificate import Certificate
from csprop.training.checkpoint import SUSPECTS
from csprop.training.scores import interval, percent


@dataclass(frozen=True)
class Preference:
    """Why a machine that counts was chosen over a finite one."""

    counters: int
    bits: int
    """Of the machine and of the labels that it contradicts."""
    finite_states: int | None
    """Of the finite machine with the shortest description; None if none was found."""
    finite_bits: int | None
    """As `bits`."""
    longer: int
    """Labels of rows that are longer than those to which machines were fitted at first."""
    misses: int
    """How many of these a machine that counts contradicted then."""
    finite_misses: int
    """How many of these a finite machine contradicted then."""

    @property
    def text(self) -> str:
        """The reason in words."""
        said = "No finite machine of a reasonable size was found."
        if self.finite_bits is not None and self.finite_states is not None:
            said = (
                f"It describes the labels in {self.bits:,} bits; the best finite machine, of "
                f"{counted(self.finite_states, 'state')}, takes {self.finite_bits:,}."
            )
        return (
            f"{said} Fitted to the shorter rows alone, a machine that counts was wrong on "
            f"{self.misses:,} of {self.longer:,} labels of longer rows, and a finite one on "
            f"{self.finite_misses:,}."
        )


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
    preference: Preference | None = None
    """Why the machine counts; None if it is a finite one."""

    @property
    def accuracy(self) -> float:
        """On held-out labels."""
        return self.held_out_right / self.held_out

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval of the accuracy."""
        return interval(self.held_out_right, self.held_out)

    @property
    def size(self) -> str:
        """The number of states, and of counters."""
        return self._sized(self.states)

    def _sized(self, states: int) -> str:
        return describe_size(states, 0 if self.preference is None else self.preference.counters)

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        if not self.clear:
            return (
                f"{self.source}: no machine is clearly better than none; always saying the commonest "
                f"class is right on {percent(self.commonest)} of the labels"
            )
        found = f"{self.source}: a machine of {self.size}"
        if self.is_task:
            assert self.certificate is not None
            return f"{found}, {self.certificate.verdict}"
        every = self.agreed == self.rows
        agreed = f"all {self.rows:,}" if every else f"{self.agreed:,} of {self.rows:,}"
        return f"{found}, which agrees with {agreed} rows"

    @property
    def text(self) -> str:
        """The verdict as a paragraph."""
        if not self.clear:
            return f"{self.sentence}."
        low, high = map(percent, self.interval)
        who = "it" if self.same else f"a machine of {self._sized(self.held_out_states)}"
        said = [
            f"{self.sentence}.",
            f"Found without the held-out rows, {who} is right on {self.held_out_right:,} of "
            f"{self.held_out:,} of their labels ({percent(self.accuracy)}; 95% interval {low} to "
            f"{high}). Always saying the commonest class is right on {percent(self.commonest)} of all "
            "labels.",
        ]
        if self.preference is not None:
            said.insert(1, self.preference.text)
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
        } | ({} if self.preference is None else {"counting": asdict(self.preference)})


def sized(machine: Machine | CounterMachine) -> str:
    """The size of a machine: its states, and its counters if it has any."""
    return describe_size(len(machine), machine.counters if isinstance(machine, CounterMachine) else 0)


def counted(number: int, what: str) -> str:
    """A number of things: 1 state, 2 states."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
