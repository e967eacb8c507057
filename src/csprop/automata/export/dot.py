"""Export to Graphviz: a circle per state, and one arrow for all tokens between two states."""

from csprop.automata.automaton import Automaton
from csprop.automata.names import edges, visible


def to_dot(automaton: Automaton) -> str:
    """The automaton as a directed graph in the DOT language."""
    lines = ["digraph automaton {", "  rankdir=LR;", "  node [shape=circle];"]
    lines += ["  start [shape=point];", f"  start -> s{automaton.start};"]
    for state, output in enumerate(automaton.outputs):
        name = "" if output is None else automaton.classes[output]
        lines.append(f"  s{state} [label={_quoted(name)}];")
    for state, row in enumerate(automaton.transitions):
        for there, tokens in edges(row).items():
            label = ", ".join(automaton.vocab[token] for token in tokens)
            lines.append(f"  s{state} -> s{there} [label={_quoted(label)}];")
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    """A quoted label. Graphviz expands entities (`&lt;`) in labels, and NUL ends its input."""
    escaped = visible(text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
