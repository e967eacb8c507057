"""Export to Python, without any library."""

from collections.abc import Iterable

from csprop.automata.automaton import Automaton
from csprop.automata.export.templates import filled, wrapped


def to_python(automaton: Automaton) -> str:
    """The automaton as a module with `step` and `predict`, and a program that reads from stdin."""
    return filled(
        "automaton.py.template",
        automaton,
        vocab=_listed(automaton.vocab),
        classes=_listed(automaton.classes),
        start=automaton.start,
        rows="\n".join(
            f"    ({', '.join(map(str, row))},),  # {state}"
            for state, row in enumerate(automaton.transitions)
        ),
        answers=wrapped(map(str, automaton.outputs)),
        read="text.split()" if automaton.words else "(each for each in text if not each.isspace())",
    )


def _listed(names: Iterable[str]) -> str:
    return "\n".join(f"    {name!r},  # {i}" for i, name in enumerate(names))
