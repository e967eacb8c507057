"""Pictures of automata: ellipses and labelled arrows, or for many states dots and coloured arrows."""

import io
import math
import textwrap
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from csprop import notebook
from csprop.automata.arrows import Arrow, arrows, caption
from csprop.automata.automaton import AnyAutomaton
from csprop.automata.export.text import to_text
from csprop.automata.machine import Machine
from csprop.automata.names import describe_size, escape
from csprop.errors import InputError, require
from csprop.files import replace

MOST_DRAWN, MOST_SHOWN, READABLE = 400, 120, 12
"""The largest numbers of states that are drawn in a file, in a notebook, and with labelled arrows."""
MOST_LINES, LINE = 4, 22
"""The largest number of lines in the label of an arrow, and about the letters of a line."""
INCHES = 0.75
"""The size of one unit of the layout."""
# Tints of the colours of Okabe and Ito, which colour-blind people can distinguish.
CLASSES = ("#BBE0F6", "#F8DDA8", "#A6DCC9", "#F9F3A6", "#EBCADB", "#F2BFA1", "#A3C7E4", "#DDDDDD")
TOKENS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555", "#B8A800")

Points = NDArray[np.float64]


def draw(automaton: AnyAutomaton, path: Path | str) -> None:
    """Draw an automaton of at most 400 states to a file that ends in .png, .svg or .pdf.

    Raises:
        InputError: there are too many states, or the file cannot be written.
    """
    path, states = Path(path), len(automaton)
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise InputError(f"{path}: write a name that ends in .png, .svg or .pdf")
    require("matplotlib", "figures", "drawing an automaton")
    if states > MOST_DRAWN:
        raise InputError(f"{path}: {states} states are too many to draw: the limit is {MOST_DRAWN}")
    try:
        replace(path, _picture(automaton, path.suffix.removeprefix(".")))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error


def html(automaton: AnyAutomaton) -> str:
    """Return HTML for a notebook: the size, and a picture, which is text without matplotlib."""
    states = describe_size(len(automaton), automaton.counters)
    if len(automaton) > MOST_SHOWN:
        seen = notebook.paragraph(f"It has more than {MOST_SHOWN} states, and is not drawn here.")
    elif find_spec("matplotlib") is None:
        seen = notebook.preformatted(to_text(automaton))
    else:
        seen = notebook.picture(_picture(automaton, "svg"), f"a picture of the {states}")
    return notebook.card(f"{type(automaton).__name__} of {states}", seen)


def layout(machine: Machine, gap: float) -> Points:
    """Return the position of each state, (S, 2): on a circle, or for many states by springs.

    The circle goes clockwise from the left. Neighbours on it have the distance `gap`.
    """
    states = len(machine)
    if states == 1:
        return np.zeros((1, 2))
    if states <= READABLE:
        angles = math.pi - 2 * math.pi * np.arange(states) / states
        radius = max(1.2, gap / 2 / math.sin(math.pi / states))
        return radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    import networkx

    graph = networkx.Graph((one, two) for one, row in enumerate(machine.transitions) for two in row)
    places = networkx.spring_layout(graph, seed=0, iterations=200, scale=0.6 * math.sqrt(states))
    return np.array([places[state] for state in range(states)])


def _picture(automaton: AnyAutomaton, format: str) -> bytes:
    """Return the content of a file in a format of matplotlib."""
    from matplotlib.figure import Figure

    shown = arrows(automaton)
    texts = [*_answers(automaton), *(_label(automaton, each) for each in shown)]
    places = layout(automaton.control, max(1.9, *(2 * _extent(text)[0] + 1 for text in texts)))
    low, high = places.min(axis=0) - 1, places.max(axis=0) + 1
    figure = Figure(figsize=tuple((high - low) * INCHES), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    axes.axis("off")
    few = len(automaton) <= READABLE
    lowest = (_draw_few if few else _draw_many)(axes, automaton, places, shown)
    below = "\n".join(each if len(each) <= 60 else f"{each[:59]}…" for each in caption(automaton))
    _write(axes, (low + high) / 2 * [1, 0] + [0, lowest - 0.25], below, va="top", fontsize=9)
    picture = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a character that the font lacks is drawn as a box
        figure.savefig(picture, format=format, dpi=150, bbox_inches="tight", pad_inches=0.12)
    return picture.getvalue()


def _draw_few(axes: Any, automaton: AnyAutomaton, places: Points, shown: list[Arrow]) -> float:
    """Draw an ellipse with its answer for each state, and labelled arrows; return the lowest height."""
    from matplotlib.patches import Ellipse

    ellipses, taken = [], []
    for state, (place, name) in enumerate(zip(places, _answers(automaton), strict=True)):
        size = np.array([max(0.42, _extent(name)[0] + 0.15), 0.42])
        looks = {"facecolor": _colour(automaton, state), "edgecolor": "black", "linewidth": 1.2}
        ellipses.append(axes.add_patch(Ellipse(place, *(2 * size), zorder=5, **looks)))
        _write(axes, place, name, fontsize=11.5, zorder=6)
        taken.append((place, size))
    ways = {(each.state, each.there) for each in shown}
    looks = {"color": "#444444", "linewidth": 1.1, "mutation_scale": 11}
    for arrow in shown:
        text = _label(automaton, arrow)
        here, there = places[arrow.state], places[arrow.there]
        if arrow.state == arrow.there:
            direction = _outward(places, arrow.state)
            _draw_loop(axes, here, direction, taken[arrow.state][1], 1.0, **looks)
            reach = _reach(direction, np.array(_extent(text)))
            spots = [here + direction * (_reach(direction, taken[arrow.state][1]) + 0.8 + reach)]
        else:
            bend = 0.22 if (arrow.there, arrow.state) in ways else 0.1
            ends = {"patchA": ellipses[arrow.state], "patchB": ellipses[arrow.there], "shrinkB": 2}
            _draw_arrow(axes, here, there, bend, **looks, **ends)
            x, y = there - here
            middle = (here + there) / 2 + bend * np.array([-y, x])
            t = np.array([0.5, 0.44, 0.56, 0.38, 0.62, 0.32, 0.68])[:, None]
            spots = (1 - t) ** 2 * here + 2 * t * (1 - t) * middle + t**2 * there
        spot = max(spots, key=lambda spot: min(0.05, _room(spot, text, taken)))
        taken.append((spot, np.array(_extent(text))))
        box = {"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none"}
        _write(axes, spot, text, fontsize=10, bbox=box, zorder=3)
    start, (x, y) = automaton.start, _outward(places, automaton.start)
    aside = np.array([0.6 * x - 0.8 * y, 0.8 * x + 0.6 * y])  # beside the loop of the start
    tail = places[start] + aside * (_reach(aside, taken[start][1]) + 0.8)
    looks = {"color": "black", "linewidth": 1.6, "mutation_scale": 13, "patchB": ellipses[start]}
    _draw_arrow(axes, tail, places[start], 0, shrinkB=2, **looks)
    return min(place[1] - size[1] for place, size in taken)


def _draw_many(axes: Any, automaton: AnyAutomaton, places: Points, shown: list[Arrow]) -> float:
    """Draw a dot for each state, an arrow in its colour for each token, and a legend."""
    from matplotlib.lines import Line2D

    for arrow, token in ((each, token) for each in shown for token in each.tokens):
        looks = {"color": _line(token), "linewidth": 0.8, "mutation_scale": 7, "alpha": 0.8}
        here, there = places[arrow.state], places[arrow.there]
        if arrow.state == arrow.there:
            direction = np.array([math.cos(0.7 * token), math.sin(0.7 * token)])
            _draw_loop(axes, here, direction, np.full(2, 0.16), 0.35, **looks)
        else:
            bend = 0.08 + 0.06 * (token % 4)  # arrows between the same two states differ
            _draw_arrow(axes, here, there, bend, shrinkA=5, shrinkB=6, **looks)
    colours = [_colour(automaton, state) for state in range(len(places))]
    widths = [2.4 if state == automaton.start else 0.7 for state in range(len(places))]
    axes.scatter(*places.T, s=110, c=colours, edgecolors="black", linewidths=widths, zorder=5)
    dot = {"marker": "o", "linestyle": "none", "markersize": 9, "markeredgecolor": "black"}
    classes = automaton.classes if len(automaton.classes) <= len(CLASSES) else ()
    vocab = [*automaton.vocab[: len(TOKENS)], *["other tokens"][: automaton.symbols - len(TOKENS)]]
    handles = [Line2D([], [], color=CLASSES[i], **dot) for i in range(len(classes))]
    handles += [Line2D([], [], color=_line(i), linewidth=2) for i in range(len(vocab))]
    # matplotlib ignores labels with a leading underscore, so the texts are set afterwards.
    legend = axes.legend(handles, ["x"] * len(handles), loc="center left", frameon=False, fontsize=9,
                         bbox_to_anchor=(1, 0.5))  # fmt: skip
    for label, text in zip(legend.get_texts(), map(_shorten, [*classes, *vocab]), strict=True):
        label.set_parse_math(False)
        label.set_text(text)
    return float(places[:, 1].min()) - 0.5


def _write(axes: Any, place: Points, text: str, **looks: Any) -> None:
    axes.text(*place, text, **{"ha": "center", "va": "center", "parse_math": False} | looks)


def _draw_arrow(axes: Any, here: Points, there: Points, bend: float, **looks: Any) -> None:
    """Draw an arrow that bends to its left."""
    style = {"arrowstyle": "-|>", "shrinkA": 0, "connectionstyle": f"arc3,rad={-bend}"}
    axes.annotate("", there, here, arrowprops=style | looks, zorder=2)


def _draw_loop(
    axes: Any, place: Points, direction: Points, size: Points, length: float, **looks: Any
) -> None:
    """Draw an arrow from a state, an ellipse of some size, to itself."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path as Curve

    angle = math.atan2(direction[1] / size[1], direction[0] / size[0])
    ends = [place + size * [math.cos(angle + turn), math.sin(angle + turn)] for turn in (0.5, -0.5)]
    aside = 0.5 * length * np.array([-direction[1], direction[0]])
    points = [
        ends[0],
        ends[0] + length * direction + aside,
        ends[1] + length * direction - aside,
        ends[1],
    ]
    curve = Curve(points, [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4])
    style = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "clip_on": False}
    axes.add_patch(FancyArrowPatch(path=curve, **style, **looks))


def _colour(automaton: AnyAutomaton, state: int) -> str:
    """Return the colour of a state: of its class, unless there are too many to distinguish."""
    output = automaton.outputs[state]
    many = len(automaton) > READABLE and len(automaton.classes) > len(CLASSES)
    return "white" if output is None or many else CLASSES[output % len(CLASSES)]


def _line(token: int) -> str:
    return TOKENS[token] if token < len(TOKENS) else "#BBBBBB"


def _answers(automaton: AnyAutomaton) -> list[str]:
    return ["" if each is None else _shorten(automaton.classes[each]) for each in automaton.outputs]


def _shorten(name: str) -> str:
    name = escape(name)
    return name if len(name) <= 24 else f"{name[:23]}…"


def _label(automaton: AnyAutomaton, arrow: Arrow) -> str:
    """Return the label of an arrow: tokens in a few lines, or with counters a line per condition."""
    lines = arrow.labels if automaton.counters else textwrap.wrap(", ".join(arrow.labels), LINE)
    few = lines[:MOST_LINES] + [f"… ({len(arrow.labels)})"][: len(lines) - MOST_LINES]
    return "\n".join(each if len(each) <= 40 else f"{each[:39]}…" for each in few)


def _room(spot: Points, text: str, taken: list[tuple[Points, Points]]) -> float:
    """Return the distance of a text at a spot from what is nearest; negative if they overlap."""
    return min(float((abs(spot - at) - size - _extent(text)).max()) for at, size in taken)


def _outward(places: Points, state: int) -> Points:
    """Return the direction from the centre of all states to one; upwards for the centre itself."""
    way = places[state] - places.mean(axis=0)
    return way / np.hypot(*way) if np.hypot(*way) > 1e-6 else np.array([0.0, 1.0])


def _reach(direction: Points, size: Points) -> float:
    """Return the distance from the centre of a rectangle, with half its sizes, to its border."""
    return float((size / abs(direction).clip(1e-9)).min())


def _extent(text: str) -> tuple[float, float]:
    """Return the approximate half width and half height of a label, in units of the layout."""
    lines = text.split("\n")
    wide = 0.5 * 0.62 * 10 / 72 * max(map(len, lines)) / INCHES + 0.04
    return wide, 0.5 * 1.3 * 10 / 72 * len(lines) / INCHES
