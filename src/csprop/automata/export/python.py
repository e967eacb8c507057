"""Export to Python, without any library."""

from collections.abc import Iterable

from csprop.automata.automaton import Automaton
from csprop.automata.counter_automaton import CounterAutomaton
from csprop.automata.export.templates import filled, headed, wrapped


def to_python(automaton: Automaton | CounterAutomaton) -> str:
    """The automaton as a module with `step` and `predict`, and a program that reads from stdin."""
    counts = isinstance(automaton, CounterAutomaton)
    return headed(
        "automaton.py.template",
        automaton,
        vocab=_listed(automaton.vocab),
        classes=_listed(automaton.classes),
        machine=_counting(automaton) if counts else _finite(automaton),
        move="step(state, NUMBER[name])" if counts else "NEXT[state][NUMBER[name]]",
        answer="answer(state)" if counts else "ANSWER[state]",
        read="text.split()" if automaton.words else "(each for each in text if not each.isspace())",
    )


def _finite(automaton: Automaton) -> str:
    return filled(
        "finite.py.template",
        start=automaton.start,
        rows=_rows(automaton.transitions),
        answers=wrapped(map(str, automaton.outputs)),
    )


def _counting(automaton: CounterAutomaton) -> str:
    rows = [[_tuple(views) for views in row] for row in automaton.to_json()["transitions"]]
    return filled(
        "counting.py.template",
        start=automaton.start,
        zeros=_tuple([0] * automaton.counters),
        window=automaton.window,
        added=_rows(automaton.increments),
        rows=_rows(rows),
        answers=wrapped(map(str, automaton.outputs)),
    )


def _rows(rows: Iterable[Iterable[object]]) -> str:
    return "\n".join(f"    {_tuple(row)},  # {number}" for number, row in enumerate(rows))


def _tuple(values: Iterable[object]) -> str:
    """A tuple as Python writes it, also of one value or none."""
    return f"({''.join(f'{value}, ' for value in values).rstrip()})"


def _listed(names: Iterable[str]) -> str:
    return "\n".join(f"    {name!r},  # {i}" for i, name in enumerate(names))
