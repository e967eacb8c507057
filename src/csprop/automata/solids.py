"""A picture of a machine that is a group: its Cayley graph as a solid, seen from one side."""

from typing import Any

import numpy as np

from csprop.automata.automaton import Automaton
from csprop.automata.cayley import Cayley, Points
from csprop.automata.names import escape

TURNED = (0.42, 0.5)
"""Radians by which the solid is turned about the horizontal and the vertical axis, as a page begins."""
TILT = -0.9
"""Radians by which a circle is turned about the horizontal axis."""
COLOURS = ("#6C7884", "#6A4FB3", "#9A6A2C", "#2F827D")
"""The colours of tokens, as on a page. The start is orange."""
INK, START = "#1D2329", "#E69F00"
SIZE = 6.0
"""Inches."""
EYE = 4.2
"""The distance of the eye, here and in a page."""


def figure(automaton: Automaton, solid: Cayley) -> Any:
    """Draw the states, the moves of each token in its own colour, and a legend."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    made = Figure(figsize=(SIZE, SIZE), facecolor="white")
    axes = made.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-1.08, 1.08), ylim=(-1.14, 1.08), aspect="equal")
    axes.axis("off")
    places, table = _turn(solid), np.array(automaton.transitions)
    for kind, token in enumerate(solid.tokens):
        _draw_moves(
            axes, places, table[:, token], COLOURS[kind], filled=solid.shape in ("solid", "ball")
        )
    size = min(90.0, 4200 / len(places))
    for state in np.argsort(places[:, 2]):
        x, y, z = places[state]
        colour = START if state == automaton.start else INK
        axes.scatter(x, y, s=1.6 * size, color="white", zorder=z + 0.15, linewidths=0)
        axes.scatter(x, y, s=size, color=colour, alpha=_opacity(z), zorder=z + 0.16, linewidths=0)
    handles = [Line2D([], [], color=COLOURS[kind], linewidth=3) for kind in range(len(solid.tokens))]
    names = [escape(automaton.vocab[token]) for token in solid.tokens]
    legend = axes.legend(handles, ["x"] * len(names), loc="lower center", ncols=4, frameon=False)
    for label, text in zip(legend.get_texts(), names, strict=True):
        label.set_parse_math(False)  # a name is text
        label.set_text(text)
    return made


def turns(solid: Cayley) -> tuple[float, float]:
    """Return the angles about the horizontal and the vertical axis at which a solid is shown first."""
    return (TILT, 0.0) if solid.shape == "circle" else TURNED


def _turn(solid: Cayley) -> Points:
    """Return the positions turned, with perspective."""
    across, down = turns(solid)
    about_x = [[1, 0, 0], [0, np.cos(across), -np.sin(across)], [0, np.sin(across), np.cos(across)]]
    about_y = [[np.cos(down), 0, np.sin(down)], [0, 1, 0], [-np.sin(down), 0, np.cos(down)]]
    places = solid.places @ (np.array(about_x) @ np.array(about_y)).T
    flat = places[:, :2] * EYE / (EYE - places[:, 2:])
    return np.concatenate([flat / np.linalg.norm(flat, axis=1).max(), places[:, 2:]], axis=1)


def _opacity(depth: float) -> float:
    """Return the opacity at a depth: states behind are pale."""
    return 0.12 + 0.88 * float(np.clip((depth + 0.75) / 1.35, 0, 1)) ** 1.4


def _draw_moves(axes: Any, places: Points, column: Any, colour: str, filled: bool) -> None:
    """The edges of a token, and the faces around which it leads."""
    from matplotlib.patches import Polygon

    done: set[int] = set()
    for state, there in enumerate(column.tolist()):
        ends = places[[state, there]]
        depth = float(ends[:, 2].mean())
        axes.plot(
            *ends[:, :2].T, color=colour, alpha=_opacity(depth), zorder=depth,
            linewidth=1 + 1.5 * max(0.0, depth + 0.5), solid_capstyle="round",
        )  # fmt: skip
        face = [state]
        while int(column[face[-1]]) != state:
            face.append(int(column[face[-1]]))
        if filled and 3 <= len(face) <= 6 and state not in done:
            done |= set(face)
            corners = places[face]
            depth = float(corners[:, 2].mean())
            axes.add_patch(
                Polygon(corners[:, :2], color=colour, alpha=0.35 * _opacity(depth), zorder=depth - 0.03,
                        linewidth=0)
            )  # fmt: skip
