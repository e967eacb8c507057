"""Export to Graphviz: a circle per state, and one arrow for all transitions between two states."""

from csprop.automata.arrows import arrows, caption
from csprop.automata.automaton import AnyAutomaton
from csprop.automata.names import escape


def to_dot(automaton: AnyAutomaton) -> str:
    """Return the automaton as a directed graph in the DOT language."""
    lines = ["digraph automaton {", "  rankdir=LR;", "  node [shape=circle];"]
    lines += ["  start [shape=point];", f"  start -> s{automaton.start};"]
    below = caption(automaton)
    lines += [f"  label={_lines(below)};"] if below else []
    for state, output in enumerate(automaton.outputs):
        name = "" if output is None else automaton.classes[output]
        lines.append(f"  s{state} [label={_quote(name)}];")
    for arrow in arrows(automaton):
        label = _lines(arrow.labels) if below else _quote(", ".join(arrow.labels))
        lines.append(f"  s{arrow.state} -> s{arrow.there} [label={label}];")
    return "\n".join([*lines, "}", ""])


def _lines(texts: list[str]) -> str:
    """Return a quoted label of several lines."""
    return '"' + "\\n".join(_quote(each)[1:-1] for each in texts) + '"'


def _quote(text: str) -> str:
    """Return a quoted label. Graphviz expands entities (`&lt;`) in labels, and NUL ends its input."""
    escaped = escape(text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
