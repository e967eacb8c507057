"""Automata from a file, a table, or a machine of AALpy or automata-lib.

The first answer of an automaton comes after the first token, so whether a DFA accepts the empty word is
lost. A DFA without a transition for a token rejects from there on, as both libraries define it: it gets
a state that rejects for ever. A Moore or Mealy machine without a transition is refused.
"""

from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import Any

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
FOREIGN = ("automata.DFA", "aalpy.Dfa", "aalpy.MooreMachine", "aalpy.MealyMachine")
"""Machines of libraries that are not imported here."""


def read_automaton(path: str | Path) -> AnyAutomaton:
    """Read an automaton as `csprop automaton` prints it, in JSON: a finite one, or one that counts."""
    path = Path(path)
    with open_file(path) as file:
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
    kind = type(machine).__name__
    if f"{type(machine).__module__.split('.')[0]}.{kind}" not in FOREIGN:
        raise InputError(
            f"a {kind} cannot be compiled: give an Automaton, a DFA of automata-lib, or a "
            "Dfa, MooreMachine or MealyMachine of AALpy"
        )
    return _explore(machine, kind)


def _explore(foreign: Any, kind: str) -> AnyAutomaton:
    """Explore a machine; a state here is a state there with the answer that led to it."""
    classes, sink, aalpy = [REJECT, ACCEPT], object(), kind != "DFA"
    accepts = attrgetter("is_accepting") if kind == "Dfa" else None
    if kind == "DFA":
        accepts = foreign.final_states.__contains__
    elif kind == "MooreMachine":
        classes = _sort(state.output for state in foreign.states)
    elif kind == "MealyMachine":
        classes = _sort(each for state in foreign.states for each in state.output_fun.values())
    numbers = {answer: number for number, answer in enumerate(classes)}
    tokens = _sort(foreign.get_input_alphabet() if aalpy else foreign.input_symbols)
    if not tokens:
        raise InputError("the machine has no tokens: it needs at least one")

    def step(pair: tuple[Any, Any], token: int) -> tuple[Any, int]:
        state, name = pair[0], tokens[token]
        if aalpy:
            leaving = {} if state is sink else state.transitions
        else:
            leaving = foreign.transitions.get(state, {})
        if accepts and name not in leaving:
            return sink, numbers[REJECT]
        if name not in leaving:
            raise InputError(
                f"the machine has no transition from {state.state_id!r} for {name!r}: complete it, for "
                "example with make_input_complete()"
            )
        after = leaving[name]
        if accepts:
            return after, numbers[ACCEPT if accepts(after) else REJECT]
        return after, numbers[after.output if kind == "MooreMachine" else state.output_fun[name]]

    start = foreign.initial_state, None
    oracle = Oracle(len(tokens), start, step, lambda pair: pair[1])
    vocab = [*map(str, tokens)]
    words = any(len(name) > 1 for name in vocab)
    return name_machine(Machine.explore(oracle), vocab, [*map(str, classes)], words)


def _sort(values: Iterable[Any]) -> list[Any]:
    """Sort the distinct values: numbers by their size, anything else by its text."""
    distinct = list(dict.fromkeys(values))
    if all(type(value) in (int, float) for value in distinct):
        return sorted(distinct)
    return sorted(distinct, key=str)
