"""Automata that count: machines with counters whose tokens and classes have names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from csprop.automata.automaton import check_fields, check_names, check_outputs, check_same_names
from csprop.automata.comparison import Undecided, compare_counting
from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.automata.names import describe_size, told
from csprop.automata.walk import Difference
from csprop.errors import InputError

FORMAT = "csprop automaton 2"
FIELDS = (
    "format", "vocab", "classes", "words", "increments", "window", "start", "transitions", "answers",
)  # fmt: skip
"""The fields of the JSON document."""


@dataclass(frozen=True, kw_only=True)
class CounterAutomaton(CounterMachine):
    """A machine that counts, with names for its tokens and classes.

    Raises:
        InputError: the parts or the names are malformed or do not fit together.
    """

    vocab: tuple[str, ...]
    """The names of the tokens."""
    classes: tuple[str, ...]
    """The names of the classes."""
    words: bool = False
    """Whether a sequence is written as words separated by spaces, rather than as characters."""

    def __post_init__(self) -> None:
        check_names(self)
        super().__post_init__()
        if self.symbols != len(self.vocab):
            raise InputError(
                f"automaton: there are increments of {self.symbols} tokens, but {len(self.vocab)} names"
            )
        check_outputs(self.outputs, self.classes)

    @classmethod
    def from_machine(
        cls, machine: CounterMachine, vocab: Sequence[str], classes: Sequence[str], words: bool = False
    ) -> "CounterAutomaton":
        """A machine that counts, with names for its tokens and classes."""
        return cls(
            increments=machine.increments, window=machine.window, control=machine.control,
            vocab=tuple(vocab), classes=tuple(classes), words=words,
        )  # fmt: skip

    @property
    def outputs(self) -> tuple[int | None, ...]:
        """The class of each state."""
        return self.control.outputs

    @property
    def start(self) -> int:
        """The state before the first token."""
        return self.control.start

    def __repr__(self) -> str:
        return told(
            "CounterAutomaton", describe_size(len(self), self.counters), self.vocab, self.classes
        )

    def _repr_html_(self) -> str:
        from csprop.automata.drawing import html

        return html(self)

    def distinguish(self, other: "CounterAutomaton") -> tuple[int, ...] | None:
        """A shortest sequence to which the two automata give different answers, or None.

        Raises:
            InputError: the automata have different tokens or classes, or neither a sequence nor a proof
                that there is none was found.
        """
        check_same_names(self, other)
        found = compare_counting(self, other)
        if isinstance(found, Undecided):
            raise InputError(f"automaton: the comparison is undecided: {found.reason}")
        return found.tokens if isinstance(found, Difference) else None

    def to_json(self) -> dict[str, Any]:
        """The automaton as a document for `json.dumps`."""
        views = self.views
        return {
            "format": FORMAT,
            "vocab": list(self.vocab),
            "classes": list(self.classes),
            "words": self.words,
            "increments": [list(row) for row in self.increments],
            "window": self.window,
            "start": self.start,
            "transitions": [
                [list(row[token * views : (token + 1) * views]) for token in range(self.symbols)]
                for row in self.control.transitions
            ],
            "answers": list(self.outputs),
        }

    @classmethod
    def from_json(cls, document: Any) -> "CounterAutomaton":
        """The automaton that `to_json` described.

        Raises:
            InputError: the document is malformed.
        """
        check_fields(document, FORMAT, FIELDS)
        vocab, classes, increments, rows, answers = (
            document[name] for name in ("vocab", "classes", "increments", "transitions", "answers")
        )
        lists = [vocab, classes, answers, *_listed(increments), *_listed(rows)]
        lists += [each for row in _listed(rows)[1:] for each in _listed(row)[1:]]
        if not all(isinstance(each, list) for each in lists):
            raise InputError(
                "automaton: vocab, classes, answers, increments, transitions and their rows must be "
                "lists"
            )
        if any(len({len(each) for each in row}) > 1 for row in rows):
            raise InputError(
                "automaton: transitions[state][token] must have a state for each view of the counters"
            )
        control = Machine(
            transitions=tuple(tuple(there for each in row for there in each) for row in rows),
            outputs=tuple(answers),
            start=document["start"],
        )
        return cls(
            increments=tuple(tuple(row) for row in increments), window=document["window"],
            control=control, vocab=tuple(vocab), classes=tuple(classes), words=document["words"],
        )  # fmt: skip


def _listed(value: Any) -> list[Any]:
    """A value, and if it is a list, what it holds."""
    return [value, *value] if isinstance(value, list) else [value]
