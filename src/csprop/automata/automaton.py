"""A finite automaton: a machine whose tokens and classes have names. What a model is handed over as."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from csprop.automata.machine import Machine, all_below, integers
from csprop.automata.walk import Oracle
from csprop.errors import InputError

FORMAT = "csprop automaton 1"
FIELDS = ("format", "vocab", "classes", "words", "start", "transitions", "answers")
"""Of the JSON document."""
MOST_NAMES = 2**16
"""As outputs are numbers of 16 bits."""


@dataclass(frozen=True, kw_only=True)
class Automaton(Machine):
    """A deterministic machine that answers after every token, with names."""

    vocab: tuple[str, ...]
    classes: tuple[str, ...]
    words: bool = False
    """Whether a sequence is written as words, rather than as characters."""

    def __post_init__(self) -> None:
        _check_names(self.vocab, "vocab")
        _check_names(self.classes, "classes")
        if not isinstance(self.words, bool):
            raise InputError("automaton: words must be true or false")
        super().__post_init__()
        if self.symbols != len(self.vocab):
            raise InputError(f"automaton: {self.symbols} transitions a state, {len(self.vocab)} tokens")
        for state, output in enumerate(self.outputs):
            if output is not None and output >= len(self.classes):
                raise InputError(f"automaton: state {state} answers {output}, which is no class")

    @classmethod
    def named(
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
        """From a machine that answers on its transitions: next[s][t] -> state, answers[s][t] -> class.

        A state is then where one is and what was answered on the way there; the first was answered
        nothing. Only what the start leads to is kept, in the order in which it is met.
        """
        there, said = integers(next, "next"), integers(answers, "answers")
        if there.shape != said.shape or there.ndim != 2 or there.shape[1] != len(vocab):
            raise InputError("automaton: next and answers must have a row a state and a column a token")
        if not all_below((start,), len(there)):
            raise InputError(f"automaton: the start {start!r} is not one of the {len(there)} states")
        if there.size and not (there.min() >= 0 and there.max() < len(there)):
            raise InputError("automaton: next leads to a state that is not there")
        rows, outputs = there.tolist(), said.tolist()

        def step(pair: tuple[int, int | None], token: int) -> tuple[int, int]:
            return rows[pair[0]][token], outputs[pair[0]][token]

        oracle = Oracle(len(vocab), (start, None), step, lambda pair: pair[1])
        return cls.named(Machine.explored(oracle), vocab, classes, words)

    def distinguishing(self, other: "Automaton") -> tuple[int, ...] | None:
        """The shortest sequence after which the two answer differently; None where there is none."""
        if (self.vocab, self.classes) != (other.vocab, other.classes):
            raise InputError(
                "automaton: only machines with the same tokens and classes can be compared"
            )
        found = self.difference(other)
        return None if found is None else found.tokens

    def to_json(self) -> dict[str, Any]:
        """A plain document, for `json.dumps`."""
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
        """What `to_json` gave; anything else is an InputError."""
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise InputError(f"automaton: this is no document of the format {FORMAT!r}")
        if wrong := sorted(map(str, document.keys() ^ set(FIELDS))):
            raise InputError(f"automaton: the fields must be {', '.join(FIELDS)}: see {wrong[0]!r}")
        lists = [document[name] for name in ("vocab", "classes", "transitions", "answers")]
        if not (
            all(isinstance(each, list) for each in lists)
            and all(isinstance(each, list) for each in lists[2])
        ):
            raise InputError(
                "automaton: vocab, classes, transitions, its rows and answers must be lists"
            )
        vocab, classes, rows, answers = lists
        return cls(
            transitions=tuple(tuple(row) for row in rows), outputs=tuple(answers),
            start=document["start"], vocab=tuple(vocab), classes=tuple(classes),
            words=document["words"],
        )  # fmt: skip


def _check_names(names: Any, what: str) -> None:
    if not isinstance(names, tuple) or not 0 < len(names) <= MOST_NAMES:
        raise InputError(f"automaton: {what} must be a tuple of 1 to {MOST_NAMES} names")
    for name in names:
        if not isinstance(name, str) or not name:
            raise InputError(f"automaton: {what} has {name!r}, which is no text")
        if any("\ud800" <= character <= "\udfff" for character in name):
            raise InputError(f"automaton: {what} has {name!r}, which cannot be written as UTF-8")
    if len(set(names)) < len(names):
        raise InputError(f"automaton: {what} has a name twice")
