"""Export of automata to self-contained files, one module per format."""

import json
from collections.abc import Callable

from csprop.automata.automaton import Automaton
from csprop.automata.counter_automaton import CounterAutomaton
from csprop.automata.export.c import to_c
from csprop.automata.export.dot import to_dot
from csprop.automata.export.python import to_python
from csprop.automata.export.text import to_text


def to_json(automaton: Automaton | CounterAutomaton) -> str:
    """The automaton as a JSON text, which `from_json` of its class can read after `json.loads`."""
    return json.dumps(automaton.to_json(), indent=2, ensure_ascii=False) + "\n"


FORMATS: dict[str, Callable[[Automaton | CounterAutomaton], str]] = {
    "json": to_json,
    "text": to_text,
    "dot": to_dot,
    "python": to_python,
    "c": to_c,
}
