"""Automata: machines whose tokens and classes have names, which can be exported and drawn."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, ClassVar, Self

from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.automata.names import describe_size, escape, join_names
from csprop.errors import InputError, without

MOST_NAMES = 2**16
"""Outputs are 16-bit numbers."""


@dataclass(frozen=True, kw_only=True)
class Named:
    """Names for the tokens and classes of a machine, which the other base class of a subclass is.

    Raises:
        InputError: the machine or the names are malformed or do not fit together.
    """

    vocab: tuple[str, ...]
    classes: tuple[str, ...]
    words: bool = False
    """True if a sequence is written as words separated by spaces, rather than as characters."""

    FORMAT: ClassVar[str]

    def __post_init__(self) -> None:
        _check_names(self.vocab, "vocab")
        _check_names(self.classes, "classes")
        if not isinstance(self.words, bool):
            raise InputError("automaton: words must be True or False")
        super().__post_init__()  # pyright: ignore[reportAttributeAccessIssue]
        machine: Any = self
        if machine.symbols != len(self.vocab):
            raise InputError(
                f"automaton: {machine.symbols} tokens are read, but {len(self.vocab)} have names"
            )
        for state, output in enumerate(machine.control.outputs):
            if output is not None and output >= len(self.classes):
                raise InputError(
                    f"automaton: state {state} has the output {output}, but there are only "
                    f"{len(self.classes)} classes"
                )

    @classmethod
    def from_machine(
        cls, machine: Any, vocab: Sequence[str], classes: Sequence[str], words: bool = False
    ) -> Self:
        """Give names to the tokens and classes of a machine."""
        names = {"vocab": tuple(vocab), "classes": tuple(classes), "words": words}
        parts = {
            each.name: getattr(machine, each.name) for each in fields(cls) if each.name not in names
        }
        return cls(**parts, **names)

    def __repr__(self) -> str:
        machine: Any = self
        tokens, classes = (join_names([*map(escape, each)]) for each in (self.vocab, self.classes))
        size = describe_size(len(machine), machine.counters)
        return f"{type(self).__name__}({size}; tokens {tokens}; classes {classes})"

    def _repr_html_(self) -> str:
        from csprop.automata.drawing import html

        return html(self)  # pyright: ignore[reportArgumentType]

    def to_json(self) -> dict[str, Any]:
        """Return the automaton as a document for `json.dumps`."""
        machine: Any = self
        counters, rows = {}, [list(row) for row in machine.control.transitions]
        if isinstance(self, CounterMachine):
            views = self.views
            added = [list(row) for row in self.increments]
            counters = {"increments": added, "window": self.window}
            rows = [[row[at : at + views] for at in range(0, len(row), views)] for row in rows]
        return {
            "format": self.FORMAT,
            "vocab": list(self.vocab),
            "classes": list(self.classes),
            "words": self.words,
            **counters,
            "start": machine.control.start,
            "transitions": rows,
            "answers": list(machine.control.outputs),
        }

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Return the automaton of a document that `to_json` made.

        Raises:
            InputError: the document is malformed.
        """
        counts = issubclass(cls, CounterMachine)
        known = ["format", "vocab", "classes", "words", "start", "transitions", "answers"]
        known[4:4] = ["increments", "window"] if counts else []
        if not isinstance(document, dict):
            raise InputError(f"automaton: this is not a document of the format {cls.FORMAT!r}")
        asked = f"write {', '.join(known)}"
        for field in known:
            if field not in document:
                raise InputError(f"automaton: {without(field, document, known)}; {asked}")
        if document["format"] != cls.FORMAT:
            raise InputError(f"automaton: the format is {document['format']!r}: write {cls.FORMAT!r}")
        for field in document:
            if field not in known:
                raise InputError(f"automaton: has a field {field!r}, which is unknown: {asked}")
        values = {field: _to_tuples(document[field]) for field in known}
        start, rows, outputs = values["start"], values["transitions"], values["answers"]
        parts: dict[str, Any] = {"transitions": rows, "outputs": outputs, "start": start}
        if counts:
            control = Machine(**parts | {"transitions": _join_views(rows)})
            parts = {"increments": values["increments"], "window": values["window"], "control": control}
        return cls(**parts, vocab=values["vocab"], classes=values["classes"], words=values["words"])


@dataclass(frozen=True, kw_only=True, repr=False)
class Automaton(Named, Machine):
    """A machine with names for its tokens and classes."""

    FORMAT: ClassVar[str] = "csprop automaton 1"


@dataclass(frozen=True, kw_only=True, repr=False)
class CounterAutomaton(Named, CounterMachine):
    """A machine that counts, with names for its tokens and classes."""

    FORMAT: ClassVar[str] = "csprop automaton 2"

    @property
    def outputs(self) -> tuple[int | None, ...]:
        return self.control.outputs

    @property
    def start(self) -> int:
        return self.control.start


AnyAutomaton = Automaton | CounterAutomaton


def name_machine(
    machine: Machine | CounterMachine, vocab: Sequence[str], classes: Sequence[str], words: bool = False
) -> AnyAutomaton:
    """Give names to the tokens and classes of a machine, finite or with counters."""
    kind = Automaton if isinstance(machine, Machine) else CounterAutomaton
    return kind.from_machine(machine, vocab, classes, words)


def automaton_from_json(document: Any) -> AnyAutomaton:
    """Return the automaton of a document that `to_json` made, finite or with counters."""
    counts = isinstance(document, dict) and document.get("format") == CounterAutomaton.FORMAT
    return (CounterAutomaton if counts else Automaton).from_json(document)


def _to_tuples(value: Any, depth: int = 3) -> Any:
    """Return lists as tuples, down to a depth."""
    nested = isinstance(value, list) and depth
    return tuple(_to_tuples(each, depth - 1) for each in value) if nested else value


def _join_views(rows: Any) -> Any:
    """Return rows of `transitions[state][token][view]` with a token and a view as one symbol."""
    try:
        lengths = {len(views) for row in rows for views in row}
        joined = tuple(tuple(chain.from_iterable(row)) for row in rows)
    except TypeError:
        lengths, joined = set(), ()
    if len(lengths) != 1:
        raise InputError(
            "automaton: transitions[state][token] must have a state for each view of the counters"
        )
    return joined


def _check_names(names: Any, what: str) -> None:
    if not isinstance(names, tuple) or not 0 < len(names) <= MOST_NAMES:
        raise InputError(f"automaton: {what} must be 1 to {MOST_NAMES} names")
    for name in names:
        if not isinstance(name, str) or not name:
            raise InputError(f"automaton: {what} has {name!r}, which is not a text or is empty")
        if any("\ud800" <= character <= "\udfff" for character in name):
            raise InputError(f"automaton: {what} has {name!r}, which cannot be written as UTF-8")
    if len(set(names)) < len(names):
        raise InputError(f"automaton: {what} has a name twice")
