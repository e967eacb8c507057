"""What the exports to a programming language share: their templates, and lists laid out in them."""

from collections.abc import Iterable
from importlib.resources import files
from string import Template

from csprop.automata.automaton import Automaton


def filled(name: str, automaton: Automaton, **parts: object) -> str:
    """A template of the assets with its parts put in."""
    template = (files("csprop.automata.export") / "assets" / name).read_text(encoding="utf-8")
    written = "words with spaces between" if automaton.words else "characters"
    return Template(template).substitute(parts, what=_summary(automaton), written=written)


def _summary(automaton: Automaton) -> str:
    parts = [("state", len(automaton)), ("token", len(automaton.vocab))]
    counts = [f"{count} {name}{'s' if count > 1 else ''}" for name, count in parts]
    many = "es" if len(automaton.classes) > 1 else ""
    return f"A finite automaton of {', '.join(counts)} and {len(automaton.classes)} class{many}"


def wrapped(parts: Iterable[str], width: int = 90) -> str:
    """A list in lines of about one width."""
    lines = [""]
    for part in parts:
        if len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += f"{part}, "
    return "\n".join(f"    {line.rstrip()}" for line in lines)
