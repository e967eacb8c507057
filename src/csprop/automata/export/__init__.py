"""Export of automata to self-contained files."""

import json
from collections.abc import Callable

from csprop.automata.automaton import AnyAutomaton
from csprop.automata.export.programs import to_c, to_python
from csprop.automata.export.text import to_dot, to_text


def to_json(automaton: AnyAutomaton) -> str:
    """Return the automaton as a JSON text, which `from_json` of its class reads after `json.loads`."""
    return json.dumps(automaton.to_json(), indent=2, ensure_ascii=False) + "\n"


FORMATS: dict[str, Callable[[AnyAutomaton], str]] = {
    "json": to_json,
    "text": to_text,
    "dot": to_dot,
    "python": to_python,
    "c": to_c,
}
