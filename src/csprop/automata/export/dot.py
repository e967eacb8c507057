"""Export to Graphviz: a circle per state, and one arrow for all transitions between two states."""

from csprop.automata.arrows import arrows, counted
from csprop.automata.automaton import Automaton
from csprop.automata.counter_automaton import CounterAutomaton
from csprop.automata.names import visible


def to_dot(automaton: Automaton | CounterAutomaton) -> str:
    """The automaton as a directed graph in the DOT language."""
    lines = ["digraph automaton {", "  rankdir=LR;", "  node [shape=circle];"]
    lines += ["  start [shape=point];", f"  start -> s{automaton.start};"]
    counts = counted(automaton)
    lines += [f"  label={_quoted('; '.join(counts))};"] if counts else []
    for state, output in enumerate(automaton.outputs):
        name = "" if output is None else automaton.classes[output]
        lines.append(f"  s{state} [label={_quoted(name)}];")
    between = "; " if counts else ", "
    for arrow in arrows(automaton):
        label = _quoted(between.join(arrow.labels))
        lines.append(f"  s{arrow.state} -> s{arrow.there} [label={label}];")
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    """A quoted label. Graphviz expands entities (`&lt;`) in labels, and NUL ends its input."""
    escaped = visible(text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
