"""Drawing of automata. Up to a dozen states, arrows have labels; above that, colours.

The file has over 300 lines because one class places and paints everything in a picture.
"""

import io
import math
import warnings
from importlib.util import find_spec
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from csprop import notebook
from csprop.automata import solids
from csprop.automata.arrows import Arrow, arrows, caption
from csprop.automata.automaton import AnyAutomaton, Automaton
from csprop.automata.cayley import cayley
from csprop.automata.export.text import to_text
from csprop.automata.layout import READABLE, Points, layout
from csprop.automata.names import describe_size, escape
from csprop.errors import InputError, require
from csprop.files import replace

MOST_DRAWN = 400
"""The largest number of states that is drawn."""
MOST_SHOWN = 120
"""The largest number of states that a notebook draws; the picture is a part of its file."""
MOST_LINES = 4
"""The largest number of lines in the label of an arrow."""
INCHES = 0.75
"""The size of one unit of the layout."""
# The colours of Okabe and Ito, which colour-blind people can distinguish.
PALETTE = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#CC79A7", "#D55E00", "#0072B2", "#999999")
# The darker ones first, for thin lines on white.
LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555", "#B8A800")


def draw(automaton: AnyAutomaton, path: FilePath | str) -> None:
    """Draw an automaton of at most 400 states to a file that ends in .png, .svg or .pdf.

    Raises:
        InputError: there are too many states, or the file cannot be written.
    """
    path, states = FilePath(path), len(automaton)
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


def _picture(automaton: AnyAutomaton, format: str) -> bytes:
    """Return the content of a file in a format of matplotlib."""
    if isinstance(automaton, Automaton) and len(automaton) > READABLE and (solid := cayley(automaton)):
        return _save(solids.figure(automaton, solid), format)
    from matplotlib.figure import Figure

    canvas = _Canvas(automaton)
    low, high = canvas.places.min(axis=0) - canvas.margin, canvas.places.max(axis=0) + canvas.margin
    low[1] -= 0.3 * canvas.legend_rows
    figure = Figure(figsize=tuple((high - low) * INCHES * canvas.scale), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    axes.axis("off")
    canvas.paint(axes)
    return _save(figure, format)


def _save(figure: Any, format: str) -> bytes:
    picture = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a character that the font lacks is drawn as a box
        figure.savefig(picture, format=format, dpi=150, bbox_inches="tight", pad_inches=0.12)
    return picture.getvalue()


class _Canvas:
    """The positions and colours of everything, and the axes to draw on."""

    def __init__(self, automaton: AnyAutomaton) -> None:
        self.automaton, states = automaton, len(automaton)
        self.readable = states <= READABLE
        self.radius = 0.42 if self.readable else 0.2
        self.scale = 1.0 if self.readable else 0.8
        self.margin = 1.28 if self.readable else 0.75
        self.arrows = arrows(automaton)
        self.below = caption(automaton)
        self.places = layout(automaton.control, self.gap())
        self.names = [escape(name) for name in automaton.classes]
        used = sorted({answer for answer in automaton.outputs if answer is not None})
        self.colours = dict(zip(used, _colours(len(used)), strict=True))
        longest = max(len(self.names[each]) for each in used) if used else 0
        self.inside = longest <= (9 if self.readable else 3)
        # The legend explains answers that do not fit into the circles, and the colours of arrows.
        self.explained = [] if self.inside or len(used) > 24 else used
        self.columns = max(1, int(np.ptp(self.places[:, 0]) + 2 * self.margin) // 3)
        entries = len(self.explained)
        entries += 0 if self.readable else min(len(automaton.vocab), len(LINES) + 1)
        self.legend_rows = -(-entries // self.columns)
        self.taken: list[tuple[Points, float, float]] = []  # centres of labels, half widths and heights

    def paint(self, axes: Any) -> None:
        self.axes = axes
        shown = self.arrows
        if not self.readable:  # one arrow per token, because its colour says which
            shown = [each._replace(tokens=[token]) for each in shown for token in each.tokens]
        curves = [each for each in shown if each.there != each.state]
        loops = [each for each in shown if each.there == each.state]
        pairs = {(each.state, each.there) for each in curves}
        self.lines = [self.curve(each, (each.there, each.state) in pairs) for each in curves]
        self.start_arrow(any(each.state == self.automaton.start for each in loops))
        for each, line in zip(curves, self.lines, strict=True):
            self.arrow(line, each.tokens)
        for each in loops:
            self.loop(each)
        if self.readable:
            for each, line in zip(curves, self.lines, strict=True):
                self.label_along(line, self.label(each))
        self.circles()
        self.legend()
        self.counters()

    def gap(self) -> float:
        """Return the distance between neighbours at which the longest label of an arrow fits."""
        labels = [self.label(each) for each in self.arrows if each.there != each.state]
        return max([1.9, *(2 * _extent(label)[0] + 1.0 for label in labels)])

    def outward(self, state: int) -> float:
        """Return the direction away from the centre, as an angle."""
        x, y = self.places[state] - self.places.mean(axis=0)
        return math.atan2(y, x) if math.hypot(x, y) > 1e-6 else math.pi / 2

    def at(self, state: int, angle: float, distance: float) -> Points:
        return self.places[state] + distance * np.array([math.cos(angle), math.sin(angle)])

    def curve(self, arrow: Arrow, both_ways: bool) -> Points:
        """Return the three points of a parabola from circle to circle, curved to its left."""
        one, two, tokens, _ = arrow
        start, end = self.places[one], self.places[two]
        way = end - start
        left = np.array([-way[1], way[0]])
        t = np.linspace(0, 1, 200)
        bends = (0.22, 0.32, -0.08) if both_ways else (0.1, -0.12, 0.24, -0.26)
        if not self.readable:  # by token: arrows between the same two states differ
            bends = (0.12 + 0.05 * (tokens[0] % 4) if both_ways else 0.06 * (tokens[0] % 4),)
        third = [state for state in range(len(self.places)) if state not in (one, two)]

        def clearance(bend: float) -> float:
            """Return the distance of the curve from the other circles, up to 0.6."""
            if len(bends) == 1 or not third:
                return 0.0
            on = _along(np.array([start, (start + end) / 2 + bend * left, end]), t)
            gaps = np.hypot(*(self.places[third][:, None] - on).transpose(2, 0, 1))
            return min(float(gaps.min()), 0.6)

        points = np.array([start, (start + end) / 2 + max(bends, key=clearance) * left, end])
        on = _along(points, t)
        free = [
            np.hypot(*(on - centre).T) > self.radius + gap for centre, gap in ((start, 0), (end, 0.03))
        ]
        inside = t[free[0] & free[1]]
        u, v = (inside[0], inside[-1]) if len(inside) else (0.3, 0.7)
        weights = np.array([[(1 - a) * (1 - b), (1 - a) * b + a * (1 - b), a * b] for a, b in
                            ((u, u), (u, v), (v, v))])  # fmt: skip
        return weights @ points

    def arrow(self, points: Points, tokens: list[int]) -> None:
        from matplotlib.patches import FancyArrowPatch
        from matplotlib.path import Path

        codes = [Path.MOVETO, *[Path.CURVE3 if len(points) == 3 else Path.CURVE4] * (len(points) - 1)]
        looks: dict[str, Any] = {"color": "#444444", "linewidth": 1.1, "mutation_scale": 11}
        if not self.readable:
            looks = {"color": _line(tokens[0]), "linewidth": 0.8, "mutation_scale": 6, "alpha": 0.8}
        patch = FancyArrowPatch(
            path=Path(points, codes), arrowstyle="-|>", shrinkA=0, shrinkB=0, zorder=2, **looks
        )
        self.axes.add_patch(patch)

    def loop(self, arrow: Arrow) -> None:
        state, _, tokens, _ = arrow
        angle, size = self.outward(state), 1.0 if self.readable else 0.45
        if not self.readable:
            angle += 0.5 * tokens[0]  # several loops of one state
        ends = [self.at(state, angle + turn, self.radius) for turn in (0.5, -0.5)]
        bulge = [self.at(state, angle + turn, self.radius + size) for turn in (0.55, -0.55)]
        self.arrow(np.array([ends[0], *bulge, ends[1]]), tokens)
        if self.readable:
            text = self.label(arrow)
            wide, high = _extent(text)
            # Far enough out for the box of the text to touch the loop.
            reach = min(wide / max(abs(math.cos(angle)), 1e-9), high / max(abs(math.sin(angle)), 1e-9))
            self.write(self.at(state, angle, self.radius + 0.76 * size + reach), text)

    def start_arrow(self, has_loop: bool) -> None:
        state, turn = self.automaton.start, 0.9 if has_loop else 0.0
        angle, length = self.outward(state) + turn, 0.8 if self.readable else 0.5
        end = self.at(state, angle, self.radius + 0.03)
        self.axes.annotate(
            "", xy=end, xytext=self.at(state, angle, self.radius + length), zorder=4,
            arrowprops={"arrowstyle": "-|>", "color": "black", "linewidth": 1.6, "shrinkA": 0,
                        "shrinkB": 0, "mutation_scale": 13 if self.readable else 10},
        )  # fmt: skip

    def label(self, arrow: Arrow) -> str:
        """Return the label of an arrow: a line, or with counters a line for each condition."""
        if self.below:
            few = arrow.labels[:MOST_LINES]
            few += [f"… ({len(arrow.labels)})"] if len(few) < len(arrow.labels) else []
            return "\n".join(each if len(each) <= 40 else f"{each[:39]}…" for each in few)
        parts, most = arrow.labels[:], 22
        text = ", ".join(parts)
        while len(text) > most and len(parts) > 1:
            parts.pop()
            text = f"{', '.join(parts)}, … ({len(arrow.labels)})"
        return text if len(text) <= most + 8 else f"{text[: most + 7]}…"

    def label_along(self, line: Points, text: str) -> None:
        """Write a label at the point of a line with most room around it."""
        wide, high = _extent(text)
        others = [
            _along(other, np.linspace(0.05, 0.95, 25)) for other in self.lines if other is not line
        ]
        spots = _along(line, np.linspace(0.25, 0.75, 21))

        def room(spot: Points) -> float:
            clear = [
                max(abs(spot[0] - at[0]) - wide - w, abs(spot[1] - at[1]) - high - h)
                for at, w, h in self.taken
            ]
            away = (np.abs(self.places - spot) - [wide, high]).clip(0)
            clear.append(float(np.hypot(*away.T).min()) - self.radius)
            if others:
                gaps = (np.abs(np.concatenate(others) - spot) - [wide, high]).max(axis=1)
                clear.append(min(float(gaps.min()), 0.15))
            middle = float(np.hypot(*(spot - spots[10])))
            return min(*clear, 0.3) - 0.04 * middle

        self.write(max(spots, key=room), text)

    def write(self, spot: Points, text: str) -> None:
        self.taken.append((spot, *_extent(text)))
        box = {"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none"}
        self.axes.text(*spot, text, ha="center", va="center", fontsize=10, parse_math=False, bbox=box,
                       zorder=3)  # fmt: skip

    def circles(self) -> None:
        from matplotlib.patches import Circle

        for state, answer in enumerate(self.automaton.outputs):
            colour = "#FFFFFF" if answer is None else self.colours[answer]
            thick = 1.2 if self.readable else 2.0 if state == self.automaton.start else 0.6
            place = tuple(self.places[state])
            circle = Circle(place, self.radius, facecolor=colour, edgecolor="black", linewidth=thick)
            self.axes.add_patch(circle).set_zorder(5)
            if answer is not None and self.inside:
                name = self.names[answer]
                room = 2 * 0.88 * self.radius * INCHES * self.scale * 72 / (0.6 * max(len(name), 1))
                self.axes.text(*self.places[state], name, ha="center", va="center", zorder=6,
                               fontsize=min(room, 11.5 if self.readable else 8), parse_math=False,
                               color="white" if _dark(colour) else "black")  # fmt: skip

    def legend(self) -> None:
        from matplotlib.lines import Line2D

        dot = {"marker": "o", "linestyle": "none", "markersize": 9, "markeredgecolor": "black"}
        handles = [Line2D([], [], color=self.colours[each], **dot) for each in self.explained]
        texts = [self.names[each] for each in self.explained]
        if not self.readable:
            vocab = [escape(name) for name in self.automaton.vocab]
            shown = vocab[: len(LINES)] + (["other tokens"] if len(vocab) > len(LINES) else [])
            handles += [Line2D([], [], color=_line(i), linewidth=2) for i in range(len(shown))]
            texts += shown
        if not handles:
            return
        # matplotlib ignores labels with a leading underscore, so the texts are set afterwards.
        legend = self.axes.legend(
            handles, ["x" * len(text) for text in texts], loc="lower center", ncols=self.columns,
            frameon=False, fontsize=9,
        )  # fmt: skip
        for label, text in zip(legend.get_texts(), texts, strict=True):
            label.set_parse_math(False)
            label.set_text(text if len(text) <= 24 else f"{text[:23]}…")

    def counters(self) -> None:
        """Write the caption of the counters below everything else."""
        lowest = [self.places[:, 1].min() - self.radius, *(at[1] - high for at, _, high in self.taken)]
        if self.legend_rows:
            lowest.append(self.axes.get_ylim()[0])
        middle = (self.places[:, 0].min() + self.places[:, 0].max()) / 2
        text = "\n".join(each if len(each) <= 60 else f"{each[:59]}…" for each in self.below)
        self.axes.text(middle, min(lowest) - 0.25, text, ha="center", va="top", fontsize=9,
                       parse_math=False)  # fmt: skip


def _line(token: int) -> str:
    return LINES[token] if token < len(LINES) else "#BBBBBB"


def _along(points: Points, t: Points) -> Points:
    """Return points of the parabola of three points, at parameters t."""
    s = t[:, None]
    return (1 - s) ** 2 * points[0] + 2 * s * (1 - s) * points[1] + s**2 * points[2]


def _extent(text: str) -> tuple[float, float]:
    """Return the approximate half width and half height of a label, in units of the layout."""
    lines = text.split("\n")
    wide = 0.5 * 0.62 * 10 / 72 * max(map(len, lines)) / INCHES + 0.04
    return wide, 0.5 * 1.3 * 10 / 72 * len(lines) / INCHES


def _colours(count: int) -> list[str]:
    if count <= len(PALETTE):
        return list(PALETTE[:count])
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps["cividis"](i / (count - 1))) for i in range(count)]


def _dark(colour: str) -> bool:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue < 125
