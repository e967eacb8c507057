"""Templates of the exports to C and Python."""

from collections.abc import Iterable
from importlib.resources import files
from string import Template

from csprop.automata.automaton import Automaton
from csprop.automata.counter_automaton import CounterAutomaton


def filled(name: str, **parts: object) -> str:
    """Fill in a template of the directory assets."""
    template = (files("csprop.automata.export") / "assets" / name).read_text(encoding="utf-8")
    return Template(template).substitute(parts)


def headed(name: str, automaton: Automaton | CounterAutomaton, **parts: object) -> str:
    """Fill in a template that says what the automaton is."""
    written = "words separated by spaces" if automaton.words else "characters"
    return filled(name, what=_summary(automaton), written=written, **parts)


def _summary(automaton: Automaton | CounterAutomaton) -> str:
    parts, kind = [("state", len(automaton)), ("token", len(automaton.vocab))], "A finite automaton"
    if isinstance(automaton, CounterAutomaton):
        parts.insert(1, ("counter", automaton.counters))
        kind = "An automaton"
    counts = [f"{count} {name}{'' if count == 1 else 's'}" for name, count in parts]
    many = "es" if len(automaton.classes) > 1 else ""
    return f"{kind} of {', '.join(counts)} and {len(automaton.classes)} class{many}"


def wrapped(parts: Iterable[str], width: int = 90) -> str:
    """Wrap a comma-separated list at about `width` columns."""
    lines = [""]
    for part in parts:
        if len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += f"{part}, "
    return "\n".join(f"    {line.rstrip()}" for line in lines)
