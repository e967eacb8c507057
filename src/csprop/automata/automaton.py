"""Automata: machines whose tokens and classes have names, which can be exported and drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from csprop.automata.machine import Machine, all_below, integers
from csprop.automata.names import describe_size, told
from csprop.automata.walk import Oracle
from csprop.errors import InputError, without

FORMAT = "csprop automaton 1"
FIELDS = ("format", "vocab", "classes", "words", "start", "transitions", "answers")
"""The fields of the JSON document."""
MOST_NAMES = 2**16
"""Outputs are 16-bit numbers."""


@dataclass(frozen=True, kw_only=True)
class Automaton(Machine):
    """A machine with names for its tokens and classes.

    Raises:
        InputError: the tables or the names are malformed or do not fit together.
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
                f"automaton: {self.symbols} transitions per state, but {len(self.vocab)} tokens"
            )
        check_outputs(self.outputs, self.classes)

    @classmethod
    def from_machine(
        cls, machine: Machine, vocab: Sequence[str], classes: Sequence[str], words: bool = False
    ) -> "Automaton":
        """A machine with names for its tokens and classes."""
        return cls(
            transitions=machine.transitions, outputs=machine.outputs, start=machine.start,
            vocab=tuple(vocab), classes=tuple(classes), words=words,
        )  # fmt: skip

    @classmethod
    def from_mealy(
        cls,
        next: ArrayLike,
        answers: ArrayLike,
        start: int,
        vocab: Sequence[str],
        classes: Sequence[str],
        words: bool = False,
    ) -> "Automaton":
        """From a Mealy machine, whose transitions have the answers.

        A state of the automaton is a state of the Mealy machine together with the answer of the
        transition that led to it. Only states that can be reached are kept, in breadth-first order.

        Args:
            next: the next state, `next[state][token]`.
            answers: the class, `answers[state][token]`.
            start: the state before the first token.
            vocab: the names of the tokens.
            classes: the names of the classes.
            words: whether a sequence is written as words separated by spaces.

        Raises:
            InputError: the tables are malformed or do not fit together.
        """
        there, said = integers(next, "next"), integers(answers, "answers")
        if there.shape != said.shape or there.ndim != 2 or there.shape[1] != len(vocab):
            raise InputError(
                "automaton: next and answers must have one row per state and one column per token"
            )
        if not all_below((start,), len(there)):
            raise InputError(f"automaton: the start {start!r} is not one of the {len(there)} states")
        if there.size and not (there.min() >= 0 and there.max() < len(there)):
            raise InputError("automaton: next leads to a state that does not exist")
        rows, outputs = there.tolist(), said.tolist()

        def step(pair: tuple[int, int | None], token: int) -> tuple[int, int]:
            return rows[pair[0]][token], outputs[pair[0]][token]

        oracle = Oracle(len(vocab), (start, None), step, lambda pair: pair[1])
        return cls.from_machine(Machine.explore(oracle), vocab, classes, words)

    def __repr__(self) -> str:
        return told("Automaton", describe_size(len(self)), self.vocab, self.classes)

    def _repr_html_(self) -> str:
        from csprop.automata.drawing import html

        return html(self)

    def distinguish(self, other: "Automaton") -> tuple[int, ...] | None:
        """A shortest sequence to which the two automata give different answers, or None.

        Raises:
            InputError: the automata have different tokens or classes.
        """
        check_same_names(self, other)
        found = self.difference(other)
        return None if found is None else found.tokens

    def to_json(self) -> dict[str, Any]:
        """The automaton as a document for `json.dumps`."""
        return {
            "format": FORMAT,
            "vocab": list(self.vocab),
            "classes": list(self.classes),
            "words": self.words,
            "start": self.start,
            "transitions": [list(row) for row in self.transitions],
            "answers": list(self.outputs),
        }

    @classmethod
    def from_json(cls, document: Any) -> "Automaton":
        """The automaton that `to_json` described.

        Raises:
            InputError: the document is malformed.
        """
        check_fields(document, FORMAT, FIELDS)
        lists = [document[name] for name in ("vocab", "classes", "transitions", "answers")]
        if not (
            all(isinstance(each, list) for each in lists)
            and all(isinstance(each, list) for each in lists[2])
        ):
            raise InputError(
                "automaton: vocab, classes, answers, transitions and its rows must be lists"
            )
        vocab, classes, rows, answers = lists
        return cls(
            transitions=tuple(tuple(row) for row in rows), outputs=tuple(answers),
            start=document["start"], vocab=tuple(vocab), classes=tuple(classes),
            words=document["words"],
        )  # fmt: skip


def check_fields(document: Any, format: str, fields: tuple[str, ...]) -> None:
    """Check that a document has a format and its fields.

    Raises:
        InputError: it does not.
    """
    if not isinstance(document, dict):
        raise InputError(f"automaton: this is not a document of the format {format!r}")
    asked = f"write {', '.join(fields)}"
    for field in fields:
        if field not in document:
            raise InputError(f"automaton: {without(field, document, fields)}; {asked}")
    if document["format"] != format:
        raise InputError(f"automaton: the format is {document['format']!r}: write {format!r}")
    for field in sorted(document.keys() - set(fields)):
        raise InputError(f"automaton: has a field {field!r}, which is unknown: {asked}")


def check_names(automaton: Any) -> None:
    """Check the vocab, classes and words of an automaton.

    Raises:
        InputError: they are malformed.
    """
    _check_names(automaton.vocab, "vocab")
    _check_names(automaton.classes, "classes")
    if not isinstance(automaton.words, bool):
        raise InputError("automaton: words must be True or False")


def check_outputs(outputs: Sequence[int | None], classes: Sequence[str]) -> None:
    """Check that every output is a class.

    Raises:
        InputError: one is not.
    """
    for state, output in enumerate(outputs):
        if output is not None and output >= len(classes):
            raise InputError(
                f"automaton: state {state} has the output {output}, but there are only "
                f"{len(classes)} classes"
            )


def check_same_names(one: Any, two: Any) -> None:
    """Check that two automata have the same tokens and classes.

    Raises:
        InputError: they do not, or one of them counts and the other does not.
    """
    if type(one) is not type(two):
        raise InputError("automaton: one that counts can be compared only with one that counts")
    if (one.vocab, one.classes) != (two.vocab, two.classes):
        raise InputError("automaton: only automata with the same tokens and classes can be compared")


def _check_names(names: Any, what: str) -> None:
    if not isinstance(names, tuple) or not 0 < len(names) <= MOST_NAMES:
        raise InputError(f"automaton: {what} must be a tuple of 1 to {MOST_NAMES} names")
    for name in names:
        if not isinstance(name, str) or not name:
            raise InputError(f"automaton: {what} has {name!r}, which is not a text or is empty")
        if any("\ud800" <= character <= "\udfff" for character in name):
            raise InputError(f"automaton: {what} has {name!r}, which cannot be written as UTF-8")
    if len(set(names)) < len(names):
        raise InputError(f"automaton: {what} has a name twice")
