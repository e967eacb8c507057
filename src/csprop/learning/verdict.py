"""The verdict on a learned machine, in plain words."""

from dataclasses import dataclass, fields

from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.automata.names import describe_size
from csprop.proof.certificate import Certificate
from csprop.training.checkpoint import SUSPECTS
from csprop.training.scores import Evidence, Preference, percent


@dataclass(frozen=True, kw_only=True)
class Verdict(Evidence):
    """The quality of a machine, and the evidence for it."""

    source: str
    clear: bool
    """True if it is better than no machine by a clear margin."""
    states: int
    is_task: bool
    certificate: Certificate | None = None
    unseen: frozenset[tuple[int, int]] = frozenset()
    """States and tokens of transitions that no row takes: they are guesses."""

    @property
    def evidence(self) -> Evidence:
        """The numbers alone."""
        return Evidence(**{each.name: getattr(self, each.name) for each in fields(Evidence)})

    @property
    def size(self) -> str:
        """The number of states, and of counters."""
        return self._sized(self.states)

    def _sized(self, states: int) -> str:
        return describe_size(states, 0 if self.counting is None else self.counting.counters)

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        if not self.clear:
            return (
                f"{self.source}: no machine is clearly better than none; always predicting the "
                f"majority class is right on {percent(self.majority)} of the labels"
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
            f"{high}). Always predicting the majority class is right on {percent(self.majority)} of "
            "all labels.",
        ]
        if self.counting is not None:
            said.insert(1, explain_counting(self.counting))
        if self.unseen_transitions:
            verb = "occurs" if self.unseen_transitions == 1 else "occur"
            transitions = counted(self.unseen_transitions, "transition")
            said.append(f"{transitions} {verb} in no row: there the machine is a guess.")
        if self.rows > self.agreed and not self.is_task:
            disagreeing = counted(self.rows - self.agreed, "row")
            verb = "disagrees" if self.rows - self.agreed == 1 else "disagree"
            said.append(f"{disagreeing} {verb} with it, and may be labelled wrongly: see {SUSPECTS}.")
        if self.is_task and self.certificate is not None:
            said.append(self.certificate.statement)
        return " ".join(said)


def explain_counting(chosen: Preference) -> str:
    """Return the reason why a machine that counts was chosen, in words."""
    bits = "No finite machine of a reasonable size was found."
    if chosen.finite_bits is not None and chosen.finite_states is not None:
        bits = (
            f"It describes the labels in {chosen.bits:,} bits; the best finite machine, of "
            f"{counted(chosen.finite_states, 'state')}, takes {chosen.finite_bits:,}."
        )
    return (
        f"{bits} Fitted to the shorter rows alone, a machine that counts was wrong on "
        f"{chosen.misses:,} of {chosen.longer:,} labels of longer rows, and a finite one on "
        f"{chosen.finite_misses:,}."
    )


def describe_machine(machine: Machine | CounterMachine) -> str:
    """The size of a machine: its states, and its counters if it has any."""
    return describe_size(len(machine), machine.counters if isinstance(machine, CounterMachine) else 0)


def counted(number: int, what: str) -> str:
    """A number of things: 1 state, 2 states."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
