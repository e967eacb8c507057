"""Export to text: a drawing for a terminal, or for a larger machine a list of its moves."""

import textwrap
from collections.abc import Callable

from csprop.automata.arrows import Arrow, arrows, caption
from csprop.automata.automaton import AnyAutomaton
from csprop.automata.boxes import Arc, Box, draw_boxes, wide
from csprop.automata.names import escape

WIDTH = 80
"""Columns that a terminal has at least."""
MOST_DRAWN = 8
"""The largest number of states that is drawn."""
SHORT = 8
"""Columns of a line inside a box, unless one token is longer."""
SIGNS = {"≥": ">=", "≤": "<=", "≠": "!=", "−": "-", "→": ">", "↻": "@"}
"""The ASCII for signs in conditions and in the legend."""


def to_text(automaton: AnyAutomaton, *, ascii: bool = False) -> str:
    """Return the automaton as a drawing in box-drawing characters, at most 80 columns wide.

    A box is a state, with its number and its answer. An arrow is labelled with the tokens that lead
    along it, and tokens that change nothing are in the box. Arrows to the right are above the boxes,
    arrows to the left below. A machine that does not fit is a list with a line for each arrow.

    Args:
        automaton: what to draw.
        ascii: use no other characters than ASCII.
    """
    word = _in_ascii if ascii else lambda text: text
    moves = [each._replace(labels=[word(label) for label in each.labels]) for each in arrows(automaton)]
    answers = ["" if each is None else automaton.classes[each] for each in automaton.outputs]
    answers = [word(escape(each)) for each in answers]
    between = ";" if automaton.counters else ","
    lines = _drawing(automaton.start, answers, moves, between, ascii)
    if lines:
        stays = any(each.state == each.there for each in moves)
        lines.append(word("→ start" + ("   ↻ stays" if stays else "")))
    else:
        lines = _list(automaton.start, answers, moves, between, word)
    below = [part for line in caption(automaton) for part in textwrap.wrap(word(line), WIDTH)]
    return "".join(f"{line.rstrip()}\n" for line in [*lines, *below])


def _in_ascii(text: str) -> str:
    for sign, written in SIGNS.items():
        text = text.replace(sign, written)
    return text.encode("ascii", "backslashreplace").decode()


def _drawing(
    start: int, answers: list[str], moves: list[Arrow], between: str, ascii: bool
) -> list[str]:
    """Return the lines of a drawing; none if it would be too large."""
    if len(answers) > MOST_DRAWN:
        return []
    stays = {each.state: each.labels for each in moves if each.state == each.there}
    boxes = [
        Box(f"{state} {answer}".rstrip(), tuple(_fill(stays.get(state, []), between, SHORT)))
        for state, answer in enumerate(answers)
    ]
    arcs = [
        Arc(each.state, each.there, f"{between} ".join(each.labels))
        for each in moves
        if each.state != each.there
    ]
    return draw_boxes(boxes, arcs, start, WIDTH, ascii)


def _fill(labels: list[str], between: str, most: int) -> list[str]:
    """Return labels in lines of up to so many columns; a longer label has a line of its own."""
    lines: list[str] = []
    for label in labels:
        if lines and wide(f"{lines[-1]}{between} {label}") <= most:
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
    widths = [max(wide(cells[column]) for cells, _ in table) for column in range(3)]
    lines = []
    for cells, labels in table:
        padded = (text + " " * (size - wide(text)) for text, size in zip(cells, widths, strict=True))
        first = "  ".join(padded)
        for part in _fill(labels, between, WIDTH - wide(first) - 3):
            lines.append(f"{first}  {part}")
            first = " " * wide(first)
    return lines
