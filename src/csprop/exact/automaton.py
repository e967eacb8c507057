"""A finite automaton that answers after every token: what a certified model is handed over as."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from csprop.errors import InputError

FORMAT = "csprop automaton 1"
MOST = 2**16
"""Names at most, as answers are numbers of 16 bits."""


@dataclass(frozen=True)
class Automaton:
    """A deterministic machine that answers after every token."""

    vocab: tuple[str, ...]
    classes: tuple[str, ...]
    words: bool
    """Whether a sequence is written as words, rather than as characters."""
    start: int
    transitions: tuple[tuple[int, ...], ...]
    """[state][token] -> state."""
    answers: tuple[int | None, ...]
    """[state] -> class. None: nothing read yet and no answer defined, so nothing may lead there."""

    def __post_init__(self) -> None:
        _check_names(self.vocab, "vocab")
        _check_names(self.classes, "classes")
        if not isinstance(self.words, bool):
            raise InputError("automaton: words must be true or false")
        for rows in (self.transitions, self.answers):
            if not isinstance(rows, tuple) or not rows:
                raise InputError("automaton: there must be at least one state, in tuples")
        states, size = len(self.transitions), len(self.vocab)
        if len(self.answers) != states:
            raise InputError(f"automaton: {len(self.answers)} answers for {states} states")
        if states * size >= 2**32:
            raise InputError(
                f"automaton: {states} states of {size} tokens are more than 2^32 transitions"
            )
        if not _all_below((self.start,), states):
            raise InputError(f"automaton: the start {self.start!r} is not one of the {states} states")
        for state, row in enumerate(self.transitions):
            if not isinstance(row, tuple) or len(row) != size:
                raise InputError(f"automaton: state {state} must have {size} transitions, one a token")
            if not _all_below(row, states):
                raise InputError(f"automaton: state {state} leads to a state that is not there")
        entered = set().union(*self.transitions)
        for state, answer in enumerate(self.answers):
            if answer is None:
                if state in entered:
                    raise InputError(f"automaton: state {state} can be entered but has no answer")
            elif not _all_below((answer,), len(self.classes)):
                raise InputError(f"automaton: state {state} answers {answer!r}, which is no class")

    @classmethod
    def from_mealy(
        cls,
        next: ArrayLike,
        answers: ArrayLike,
        start: int,
        vocab: Sequence[str],
        classes: Sequence[str],
        words: bool,
    ) -> "Automaton":
        """From a machine that answers on its transitions: next[s][t] -> state, answers[s][t] -> class.

        A state is then where one is and what was answered on the way there; the first was answered
        nothing. Only what the start leads to is kept, in the order in which it is met.
        """
        there, said = _integers(next, "next"), _integers(answers, "answers")
        if there.shape != said.shape or there.ndim != 2 or there.shape[1] != len(vocab):
            raise InputError("automaton: next and answers must have a row a state and a column a token")
        if not _all_below((start,), len(there)):
            raise InputError(f"automaton: the start {start!r} is not one of the {len(there)} states")
        if there.size and not (there.min() >= 0 and there.max() < len(there)):
            raise InputError("automaton: next leads to a state that is not there")
        moves = [
            list(zip(*pair, strict=True)) for pair in zip(there.tolist(), said.tolist(), strict=True)
        ]
        order = _reached((start, None), lambda pair: moves[pair[0]])
        number = {pair: i for i, pair in enumerate(order)}
        rows = tuple(tuple(number[pair] for pair in moves[state]) for state, _ in order)
        said_there = tuple(answer for _, answer in order)
        return cls(tuple(vocab), tuple(classes), words, 0, rows, said_there)

    def __len__(self) -> int:
        """How many states there are."""
        return len(self.transitions)

    def run(self, tokens: ArrayLike) -> NDArray[np.uint16]:
        """The answer after every token."""
        from csprop.ops import backends, native

        sequence = _sequence(tokens)
        if backends.backend() != "native":
            return np.array([self.answers[state] for state in self._states(sequence)], np.uint16)
        out = np.empty(len(sequence), np.uint16)
        _, bad = native.run_table(*self._tables, len(self.vocab), self._first_row, sequence, out)
        return out if bad < 0 else self._refuse(sequence, bad)

    def final(self, tokens: ArrayLike) -> int:
        """The answer after the last token."""
        from csprop.ops import backends, native

        sequence = _sequence(tokens)
        if not len(sequence):
            raise InputError("automaton: the sequence is empty: give at least one token")
        if backends.backend() != "native":
            state = deque(self._states(sequence), maxlen=1).pop()
        else:
            row, bad = native.run_table(*self._tables, len(self.vocab), self._first_row, sequence, None)
            state = row // len(self.vocab) if bad < 0 else self._refuse(sequence, bad)
        answer = self.answers[state]
        assert answer is not None  # only what nothing leads to has none
        return answer

    def _states(self, sequence: NDArray[Any]) -> Iterable[int]:
        """The state after every token, in plain Python."""
        outside = (sequence < 0) | (sequence >= len(self.vocab))
        if outside.any():
            self._refuse(sequence, int(outside.argmax()))
        state, transitions = self.start, self.transitions
        for token in sequence.tolist():
            state = transitions[state][token]
            yield state

    def _refuse(self, sequence: NDArray[Any], position: int) -> Any:
        raise InputError(
            f"automaton: token {sequence[position]} at position {position + 1} is none of the "
            f"{len(self.vocab)} tokens, which count from 0"
        )

    @property
    def _first_row(self) -> int:
        return self.start * len(self.vocab)

    @cached_property
    def _tables(self) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
        """For the kernel: where the row of the next state begins, and what is answered there."""
        there = np.array(self.transitions, np.uint32)
        said = np.array([0 if answer is None else answer for answer in self.answers], np.uint16)
        return there * np.uint32(len(self.vocab)), said[there]

    def minimal(self) -> "Automaton":
        """The smallest machine with the same answers; of equivalent machines it is the very same one.

        What the start itself answers is nobody's business, as the first answer comes after the first
        token. So the start is taken apart as a state without an answer, and united in the end with a
        state that goes on in the same way: the one of the first class, should there be several.
        """
        fresh = len(self)
        rows = [*self.transitions, self.transitions[self.start]]
        said = [*self.answers, None]
        order = _reached(fresh, rows.__getitem__)
        block = _blocks({state: rows[state] for state in order}, said)
        merged = {block[state]: [block[each] for each in rows[state]] for state in order}
        answer = {block[state]: said[state] for state in order}
        start = block[fresh]
        twins = [each for each in merged if each != start and merged[each] == merged[start]]
        if twins:
            start = min(twins, key=answer.__getitem__)
        order = _reached(start, merged.__getitem__)
        number = {each: i for i, each in enumerate(order)}
        return Automaton(
            self.vocab,
            self.classes,
            self.words,
            0,
            tuple(tuple(number[there] for there in merged[each]) for each in order),
            tuple(answer[each] for each in order),
        )

    def distinguishing(self, other: "Automaton") -> tuple[int, ...] | None:
        """The shortest sequence after which the two answer differently; None where there is none."""
        if (self.vocab, self.classes) != (other.vocab, other.classes):
            raise InputError(
                "automaton: only machines with the same tokens and classes can be compared"
            )
        # Minimal machines meet in fewer pairs of states, and equivalent ones need no search at all.
        one, two = self.minimal(), other.minimal()
        if one.transitions == two.transitions and one.answers == two.answers:
            return None
        first = (one.start, two.start)
        came_from: dict[tuple[int, int], tuple[tuple[int, int], int] | None] = {first: None}
        queue = [first]
        for pair in queue:
            nexts = zip(one.transitions[pair[0]], two.transitions[pair[1]], strict=True)
            for token, there in enumerate(nexts):
                if one.answers[there[0]] != two.answers[there[1]]:
                    path, step = [token], came_from[pair]
                    while step:
                        path.append(step[1])
                        step = came_from[step[0]]
                    return tuple(reversed(path))
                if there not in came_from:
                    came_from[there] = (pair, token)
                    queue.append(there)
        return None

    def to_json(self) -> dict[str, Any]:
        """A plain document, for `json.dumps`."""
        return {
            "format": FORMAT,
            "vocab": list(self.vocab),
            "classes": list(self.classes),
            "words": self.words,
            "start": self.start,
            "transitions": [list(row) for row in self.transitions],
            "answers": list(self.answers),
        }

    @classmethod
    def from_json(cls, document: Any) -> "Automaton":
        """What `to_json` gave; anything else is an InputError."""
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise InputError(f"automaton: this is no document of the format {FORMAT!r}")
        names = ["format", *(field.name for field in fields(cls))]
        if wrong := sorted(map(str, document.keys() ^ set(names))):
            raise InputError(f"automaton: the fields must be {', '.join(names)}: see {wrong[0]!r}")
        lists = [document[name] for name in ("vocab", "classes", "transitions", "answers")]
        if not (
            all(isinstance(each, list) for each in lists)
            and all(isinstance(each, list) for each in lists[2])
        ):
            raise InputError(
                "automaton: vocab, classes, transitions, its rows and answers must be lists"
            )
        vocab, classes, rows, answers = lists
        table = tuple(tuple(row) for row in rows)
        return cls(
            tuple(vocab), tuple(classes), document["words"], document["start"], table, tuple(answers)
        )


def _blocks(rows: dict[int, tuple[int, ...]], said: Sequence[int | None]) -> dict[int, int]:
    """To every state the number of its equivalence class; states without an answer are alike.

    automata-lib knows machines that accept or reject, and no classes. So every class becomes one more
    symbol, which leads from the states with that answer to the one accepting state, and else to a trap.
    """
    from automata.fa.dfa import DFA

    accepts, trap = -1, -2
    used = {said[state] for state in rows} - {None}
    asks = {f"answer {each}": each for each in used}
    paths = {
        state: {
            **{f"token {token}": there for token, there in enumerate(row)},
            **{ask: accepts if said[state] == each else trap for ask, each in asks.items()},
        }
        for state, row in rows.items()
    }
    symbols = set(paths[next(iter(paths))])
    paths[accepts] = paths[trap] = dict.fromkeys(symbols, trap)
    machine = DFA(
        states=set(paths),
        input_symbols=symbols,
        transitions=paths,
        initial_state=next(iter(rows)),
        final_states={accepts},
    )
    merged = machine.minify(retain_names=True).states
    return {state: number for number, block in enumerate(merged) for state in block if state >= 0}


def _reached(start: Any, following: Any) -> list[Any]:
    """What can be reached, in breadth-first order."""
    order, seen = [start], {start}
    for each in order:
        for there in following(each):
            if there not in seen:
                seen.add(there)
                order.append(there)
    return order


def _all_below(numbers: Iterable[Any], limit: int) -> bool:
    """Whether these are whole numbers from 0 up to the limit; True and False are none."""
    listed = list(numbers)
    return set(map(type, listed)) <= {int} and min(listed) >= 0 and max(listed) < limit


def _check_names(names: Any, what: str) -> None:
    if not isinstance(names, tuple) or not 0 < len(names) <= MOST:
        raise InputError(f"automaton: {what} must be a tuple of 1 to {MOST} names")
    for name in names:
        if not isinstance(name, str) or not name:
            raise InputError(f"automaton: {what} has {name!r}, which is no text")
        if any("\ud800" <= character <= "\udfff" for character in name):
            raise InputError(f"automaton: {what} has {name!r}, which cannot be written as UTF-8")
    if len(set(names)) < len(names):
        raise InputError(f"automaton: {what} has a name twice")


def _integers(values: Any, what: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError):  # rows of different lengths, for one
        array = np.empty(0, object)
    if not array.size and array.dtype == np.float64:  # an empty list
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InputError(f"automaton: {what} must be whole numbers, in rows of one length")
    return array


def _sequence(tokens: Any) -> NDArray[Any]:
    """A row of uint8 or int64 without gaps, as the kernel reads it."""
    array = _integers(tokens, "tokens")
    if array.ndim != 1:
        raise InputError(f"automaton: tokens must be one sequence, not {array.ndim} dimensions")
    # Where an unsigned number is too large for int64 it turns negative, and is refused as that.
    return np.ascontiguousarray(array, None if array.dtype == np.uint8 else np.int64)
