"""Automata: machines whose tokens and classes have names, which can be exported and drawn."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike

from csprop.automata.comparison import Undecided, compare_counting
from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine, all_below, integers
from csprop.automata.names import describe_size, escape, join_names
from csprop.automata.walk import Difference, Oracle
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
    """The names of the tokens."""
    classes: tuple[str, ...]
    """The names of the classes."""
    words: bool = False
    """True if a sequence is written as words separated by spaces, rather than as characters."""

    FORMAT: ClassVar[str]
    """The format of the JSON document."""
    LISTS: ClassVar[dict[str, int]]
    """The fields of the document that hold lists, and how deeply these are nested."""

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
        if "increments" in self.LISTS:
            views = machine.views
            counters = {
                "increments": [list(row) for row in machine.increments],
                "window": machine.window,
            }
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
        counts = "increments" in cls.LISTS
        _check_fields(document, cls.FORMAT, ("increments", "window") if counts else ())
        for name, depth in cls.LISTS.items():
            if not _is_nested(document[name], depth):
                raise InputError(f"automaton: {name} must be a list{' of lists' * (depth - 1)}")
        rows = document["transitions"]
        if counts and any(len({len(each) for each in row}) > 1 for row in rows):
            raise InputError(
                "automaton: transitions[state][token] must have a state for each view of the counters"
            )
        parts: dict[str, Any] = {
            "transitions": tuple(tuple(chain.from_iterable(row) if counts else row) for row in rows),
            "outputs": tuple(document["answers"]),
            "start": document["start"],
        }
        if counts:
            increments = tuple(map(tuple, document["increments"]))
            control = Machine(**parts)
            parts = {"increments": increments, "window": document["window"], "control": control}
        names = {name: tuple(document[name]) for name in ("vocab", "classes")}
        return cls(**parts, **names, words=document["words"])

    def _check_same_names(self, other: "Named") -> None:
        if type(self) is not type(other):
            raise InputError("automaton: one that counts can be compared only with one that counts")
        if (self.vocab, self.classes) != (other.vocab, other.classes):
            raise InputError(
                "automaton: only automata with the same tokens and classes can be compared"
            )


@dataclass(frozen=True, kw_only=True, repr=False)
class Automaton(Named, Machine):
    """A machine with names for its tokens and classes.

    Raises:
        InputError: the tables or the names are malformed or do not fit together.
    """

    FORMAT: ClassVar[str] = "csprop automaton 1"
    LISTS: ClassVar[dict[str, int]] = {"vocab": 1, "classes": 1, "answers": 1, "transitions": 2}

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
        """Make an automaton from a Mealy machine, whose transitions have the answers.

        A state of the automaton is a state of the Mealy machine together with the answer of the
        transition that led to it. Only states that can be reached are kept, in breadth-first order.

        Args:
            next: the next state, `next[state][token]`.
            answers: the class, `answers[state][token]`.
            start: the state before the first token.
            vocab: the names of the tokens.
            classes: the names of the classes.
            words: True if a sequence is written as words separated by spaces.

        Raises:
            InputError: the tables are malformed or do not fit together.
        """
        there, outputs = integers(next, "next"), integers(answers, "answers")
        if there.shape != outputs.shape or there.ndim != 2 or there.shape[1] != len(vocab):
            raise InputError(
                "automaton: next and answers must have one row per state and one column per token"
            )
        if not all_below((start,), len(there)):
            raise InputError(f"automaton: the start {start!r} is not one of the {len(there)} states")
        if there.size and not (there.min() >= 0 and there.max() < len(there)):
            raise InputError("automaton: next leads to a state that does not exist")
        pairs = [
            list(zip(*rows, strict=True)) for rows in zip(there.tolist(), outputs.tolist(), strict=True)
        ]
        oracle = Oracle(
            len(vocab), (start, None), lambda pair, token: pairs[pair[0]][token], lambda pair: pair[1]
        )
        return cls.from_machine(Machine.explore(oracle), vocab, classes, words)

    def distinguish(self, other: "Automaton") -> tuple[int, ...] | None:
        """Return a shortest sequence to which the two automata give different answers, or None.

        Raises:
            InputError: the automata have different tokens or classes.
        """
        self._check_same_names(other)
        difference = self.difference(other)
        return None if difference is None else difference.tokens


@dataclass(frozen=True, kw_only=True, repr=False)
class CounterAutomaton(Named, CounterMachine):
    """A machine that counts, with names for its tokens and classes.

    Raises:
        InputError: the parts or the names are malformed or do not fit together.
    """

    FORMAT: ClassVar[str] = "csprop automaton 2"
    LISTS: ClassVar[dict[str, int]] = {
        "vocab": 1, "classes": 1, "answers": 1, "increments": 2, "transitions": 3
    }  # fmt: skip

    @property
    def outputs(self) -> tuple[int | None, ...]:
        """The class of each state."""
        return self.control.outputs

    @property
    def start(self) -> int:
        """The state before the first token."""
        return self.control.start

    def distinguish(self, other: "CounterAutomaton") -> tuple[int, ...] | None:
        """Return a shortest sequence to which the two automata give different answers, or None.

        Raises:
            InputError: the automata have different tokens or classes, or neither a sequence nor a proof
                that there is none was found.
        """
        self._check_same_names(other)
        result = compare_counting(self, other)
        if isinstance(result, Undecided):
            raise InputError(f"automaton: the comparison is undecided: {result.reason}")
        return result.tokens if isinstance(result, Difference) else None


AnyAutomaton = Automaton | CounterAutomaton


def name_machine(
    machine: Machine | CounterMachine, vocab: Sequence[str], classes: Sequence[str], words: bool = False
) -> AnyAutomaton:
    """Give names to the tokens and classes of a machine, finite or with counters."""
    kind = Automaton if isinstance(machine, Machine) else CounterAutomaton
    return kind.from_machine(machine, vocab, classes, words)


def automaton_from_json(document: Any) -> AnyAutomaton:
    """Return the automaton of a document that `to_json` made, finite or with counters.

    Raises:
        InputError: the document is malformed.
    """
    counts = isinstance(document, dict) and document.get("format") == CounterAutomaton.FORMAT
    return (CounterAutomaton if counts else Automaton).from_json(document)


def _check_fields(document: Any, format: str, counters: tuple[str, ...]) -> None:
    known = ("format", "vocab", "classes", "words", *counters, "start", "transitions", "answers")
    if not isinstance(document, dict):
        raise InputError(f"automaton: this is not a document of the format {format!r}")
    asked = f"write {', '.join(known)}"
    for field in known:
        if field not in document:
            raise InputError(f"automaton: {without(field, document, known)}; {asked}")
    if document["format"] != format:
        raise InputError(f"automaton: the format is {document['format']!r}: write {format!r}")
    for field in sorted(document.keys() - set(known)):
        raise InputError(f"automaton: has a field {field!r}, which is unknown: {asked}")


def _is_nested(value: Any, depth: int) -> bool:
    """Return True if a value is a list, of lists if the depth is 2, and so on."""
    return isinstance(value, list) and (
        depth == 1 or all(_is_nested(each, depth - 1) for each in value)
    )


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
