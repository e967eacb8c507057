"""Automata from a file, a table, or a machine of AALpy or automata-lib.

The first answer of an automaton comes after the first token, so whether a DFA accepts the empty word is
lost. A DFA without a transition for a token rejects from there on, as both libraries define it: it gets
a state that rejects for ever. A Moore or Mealy machine without a transition is refused.
"""

from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from csprop.automata.automaton import (
    AnyAutomaton,
    Automaton,
    CounterAutomaton,
    automaton_from_json,
    name_machine,
)
from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.automata.walk import Oracle
from csprop.errors import InputError
from csprop.files import fault, from_json, open_file

REJECT, ACCEPT = "reject", "accept"
"""The classes of a DFA."""
MOST_BYTES = 1 << 28
"""The largest file that is read."""


def read_automaton(path: str | Path) -> AnyAutomaton:
    """Read an automaton as `csprop automaton` prints it, in JSON: a finite one, or one that counts.

    Raises:
        InputError: the file cannot be read, or does not hold an automaton.
    """
    path = Path(path)
    with open_file(path) as file:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: has more than {MOST_BYTES >> 20} MB, which is too large here")
        content = file.read()
    try:
        return automaton_from_json(from_json(content))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except ValueError as error:
        raise InputError(
            f"{path}: is not JSON: {fault(error)}: write what `csprop automaton RUN --format json` "
            "prints"
        ) from None


def to_automaton(machine: Any) -> AnyAutomaton:
    """Return an automaton for a machine of csprop, AALpy or automata-lib.

    Args:
        machine: an `Automaton` or `CounterAutomaton`, which is returned; a `Machine` or
            `CounterMachine`, whose tokens and classes are then named 0, 1, …; a `DFA` of automata-lib;
            or a `Dfa`, `MooreMachine` or `MealyMachine` of AALpy.

    Raises:
        InputError: it is something else, or a Moore or Mealy machine lacks a transition.
    """
    if isinstance(machine, Automaton | CounterAutomaton):
        return machine
    if isinstance(machine, Machine | CounterMachine):
        classes = 1 + max(output for output in machine.control.outputs if output is not None)
        tokens, names = (map(str, range(count)) for count in (machine.symbols, max(2, classes)))
        return name_machine(machine, [*tokens], [*names])
    kind = type(machine)
    adapter = _ADAPTERS.get((kind.__module__.split(".")[0], kind.__name__))
    if adapter is None:
        raise InputError(
            f"a {kind.__name__} cannot be compiled: give an Automaton, a DFA of automata-lib, or a "
            "Dfa, MooreMachine or MealyMachine of AALpy"
        )
    return _explore(adapter(machine))


class _Foreign(NamedTuple):
    """A machine of another library, with its own states and outputs."""

    start: Hashable
    tokens: Iterable[Any]
    classes: Iterable[Any]
    step: Callable[[Any, Any], tuple[Any, Any]]
    """(state, token) to the next state and the answer; raises LookupError where there is none."""


_SINK: Any = object()
"""The state in which an incomplete DFA ends."""


def _from_dfa(dfa: Any) -> _Foreign:
    """Adapt a DFA of automata-lib, complete or partial."""

    def step(state: Any, token: Any) -> tuple[Any, Any]:
        after = _SINK if state is _SINK else dfa.transitions.get(state, {}).get(token, _SINK)
        return after, ACCEPT if after in dfa.final_states else REJECT

    return _Foreign(dfa.initial_state, dfa.input_symbols, (REJECT, ACCEPT), step)


def _from_aalpy_dfa(dfa: Any) -> _Foreign:
    def step(state: Any, token: Any) -> tuple[Any, Any]:
        after = _SINK if state is _SINK else state.transitions.get(token, _SINK)
        return after, ACCEPT if after is not _SINK and after.is_accepting else REJECT

    return _Foreign(dfa.initial_state, dfa.get_input_alphabet(), (REJECT, ACCEPT), step)


def _from_moore(moore: Any) -> _Foreign:
    def step(state: Any, token: Any) -> tuple[Any, Any]:
        after = state.transitions[token]
        return after, after.output

    outputs = _sort(state.output for state in moore.states)
    return _Foreign(moore.initial_state, moore.get_input_alphabet(), outputs, step)


def _from_mealy(mealy: Any) -> _Foreign:
    def step(state: Any, token: Any) -> tuple[Any, Any]:
        return state.transitions[token], state.output_fun[token]

    outputs = _sort(output for state in mealy.states for output in state.output_fun.values())
    return _Foreign(mealy.initial_state, mealy.get_input_alphabet(), outputs, step)


_ADAPTERS: dict[tuple[str, str], Callable[[Any], _Foreign]] = {
    ("automata", "DFA"): _from_dfa,
    ("aalpy", "Dfa"): _from_aalpy_dfa,
    ("aalpy", "MooreMachine"): _from_moore,
    ("aalpy", "MealyMachine"): _from_mealy,
}
"""By the library and the name of the class: neither library is imported here."""


def _explore(foreign: _Foreign) -> AnyAutomaton:
    """Explore a machine; a state here is a state there with the answer that led to it."""
    tokens, classes = _sort(foreign.tokens), list(foreign.classes)
    numbers = {answer: number for number, answer in enumerate(classes)}
    if not tokens:
        raise InputError("the machine has no tokens: it needs at least one")

    def step(state: tuple[Any, Any], token: int) -> tuple[Any, Any]:
        try:
            after, answer = foreign.step(state[0], tokens[token])
        except LookupError:
            name = getattr(state[0], "state_id", state[0])
            raise InputError(
                f"the machine has no transition from {name!r} for {tokens[token]!r}: complete it, for "
                "example with make_input_complete()"
            ) from None
        return after, numbers[answer]

    oracle = Oracle(len(tokens), (foreign.start, None), step, lambda state: state[1])
    vocab = [*map(str, tokens)]
    words = any(len(name) > 1 for name in vocab)
    return name_machine(Machine.explore(oracle), vocab, [*map(str, classes)], words)


def _sort(values: Iterable[Any]) -> list[Any]:
    """Sort the distinct values: numbers by their size, anything else by its text."""
    distinct = list(dict.fromkeys(values))
    if all(type(value) in (int, float) for value in distinct):
        return sorted(distinct)
    return sorted(distinct, key=str)
