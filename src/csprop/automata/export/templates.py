"""Templates of the exports to C and Python."""

from collections.abc import Iterable
from importlib.resources import files
from string import Template

from csprop.automata.automaton import Automaton


def filled(name: str, automaton: Automaton, **parts: object) -> str:
    """Fill in a template of the directory assets."""
    template = (files("csprop.automata.export") / "assets" / name).read_text(encoding="utf-8")
    written = "words separated by spaces" if automaton.words else "characters"
    return Template(template).substitute(parts, what=_summary(automaton), written=written)


def _summary(automaton: Automaton) -> str:
    parts = [("state", len(automaton)), ("token", len(automaton.vocab))]
    counts = [f"{count} {name}{'s' if count > 1 else ''}" for name, count in parts]
    many = "es" if len(automaton.classes) > 1 else ""
    return f"A finite automaton of {', '.join(counts)} and {len(automaton.classes)} class{many}"


def wrapped(parts: Iterable[str], width: int = 90) -> str:
    """Wrap a comma-separated list at about `width` columns."""
    lines = [""]
    for part in parts:
        if len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += f"{part}, "
    return "\n".join(f"    {line.rstrip()}" for line in lines)
