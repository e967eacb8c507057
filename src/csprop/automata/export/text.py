"""Export to a drawing for a terminal, or for a larger machine a list of its moves; and to Graphviz."""

import textwrap
from collections.abc import Callable

from csprop.automata.arrows import Arrow, arrows, caption
from csprop.automata.automaton import AnyAutomaton
from csprop.automata.names import escape

WIDTH, SHORT, MOST_DRAWN = 80, 8, 24
"""Columns of a terminal, and of tokens below a state; and the largest number of arrows in a drawing."""
SIGNS = {"≥": ">=", "≤": "<=", "≠": "!=", "−": "-", "→": ">", "↻": "@"}
LINES = {"─": "-", "│": "|", "├": "|", "┤": "|", "┼": "+", "▶": ">", "◀": "<"}
"""The ASCII for signs in conditions and in the legend, and for lines."""


def to_text(automaton: AnyAutomaton, *, ascii: bool = False) -> str:
    """Return the automaton as a drawing in box-drawing characters, at most 80 columns wide.

    A vertical line is a state, with its number and its answer above it, and the tokens that lead back
    to it. Every other arrow is a line between two states, labelled with the tokens that lead along it.
    A machine that does not fit is a list with a line for each arrow.
    """
    word = _in_ascii if ascii else lambda text: text
    moves = [each._replace(labels=[word(label) for label in each.labels]) for each in arrows(automaton)]
    answers = ["" if each is None else automaton.classes[each] for each in automaton.outputs]
    answers = [word(escape(each)) for each in answers]
    between = ";" if automaton.counters else ","
    lines = _draw(automaton.start, answers, moves, between, word)
    lines = lines or _list(automaton.start, answers, moves, between, word)
    below = [part for line in caption(automaton) for part in textwrap.wrap(word(line), WIDTH)]
    return "".join(f"{line.rstrip()}\n" for line in [*lines, *below])


def _in_ascii(text: str) -> str:
    for sign, written in (SIGNS | LINES).items():
        text = text.replace(sign, written)
    return text.encode("ascii", "backslashreplace").decode()


def _wide(text: str) -> int:
    """Return the number of columns that a text takes on a terminal."""
    from rich.cells import cell_len

    return cell_len(text)


def _draw(
    start: int, answers: list[str], moves: list[Arrow], between: str, word: Callable[[str], str]
) -> list[str]:
    """Return the lines of a drawing; none if it would be too large."""
    stays = {each.state: each.labels for each in moves if each.state == each.there}
    arcs = [
        (each.state, each.there, f" {f'{between} '.join(each.labels)} ")
        for each in moves
        if each.state != each.there
    ]
    columns, heads = [2], []
    for state, answer in enumerate(answers):
        loops = _fill(stays.get(state, []), between, SHORT)
        heads.append([f"{state} {answer}", *(f"↻ {each}" for each in loops[:1])])
        heads[-1] += [f"  {each}" for each in loops[1:]]
        room = [columns[-1] + 3 + max(map(_wide, heads[-1]))]
        room += [columns[min(arc[:2])] + 4 + _wide(arc[2]) for arc in arcs if max(arc[:2]) == state + 1]
        columns.append(max(room))
    if columns.pop() > WIDTH or len(arcs) > MOST_DRAWN:
        return []
    lines = [""] * max(map(len, heads))
    for state, (column, head) in enumerate(zip(columns, heads, strict=True)):
        for row, text in enumerate(head):
            sign = "→ " if (state, row) == (start, 0) else "  "
            lines[row] += " " * (column - 2 - _wide(lines[row])) + sign + text
    lines = list(map(word, lines))
    for state, there, text in arcs:
        low, high = sorted((columns[state], columns[there]))
        cells = ["│" if column in columns else " " for column in range(columns[-1] + 1)]
        cells[low + 1 : high] = ("┼" if column in columns else "─" for column in range(low + 1, high))
        cells[columns[state]] = "├" if state < there else "┤"
        cells[high - 1 if state < there else low + 1] = "▶" if state < there else "◀"
        size = _wide(text)
        begin = low + 1 + (high - low - size) // 2
        cells[begin : begin + size] = "\0" * size
        lines.append(word("".join(cells)).replace("\0" * size, text))
    return [*lines, word("→ start" + ("   ↻ stays" if stays else ""))]


def _fill(labels: list[str], between: str, most: int) -> list[str]:
    """Return labels in lines of up to so many columns; a longer label has a line of its own."""
    lines: list[str] = []
    for label in labels:
        if lines and _wide(f"{lines[-1]}{between} {label}") <= most:
            lines[-1] += f"{between} {label}"
        else:
            lines = [*lines[:-1], lines[-1] + between, label] if lines else [label]
    return lines


def _list(
    start: int, answers: list[str], moves: list[Arrow], between: str, word: Callable[[str], str]
) -> list[str]:
    """Return a line for each arrow, or several if there are many tokens."""
    states = [f"{word('→') if state == start else ' '} {state}" for state in range(len(answers))]
    table, last = [(["  state", "answer", "next"], ["on"])], -1
    for state, there, _, labels in moves:
        known = ["", ""] if state == last else [states[state], answers[state]]
        table.append(([*known, str(there)], labels))
        last = state
    widths = [max(_wide(cells[column]) for cells, _ in table) for column in range(3)]
    lines = []
    for cells, labels in table:
        padded = (text + " " * (size - _wide(text)) for text, size in zip(cells, widths, strict=True))
        first = "  ".join(padded)
        for part in _fill(labels, between, WIDTH - _wide(first) - 3):
            lines.append(f"{first}  {part}")
            first = " " * _wide(first)
    return lines


def to_dot(automaton: AnyAutomaton) -> str:
    """Return the automaton as a directed graph in the DOT language."""
    below, lines = caption(automaton), ["digraph automaton {", "  rankdir=LR;"]
    lines += ["  node [shape=circle];", "  start [shape=point];", f"  start -> s{automaton.start};"]
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
