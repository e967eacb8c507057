"""What the page's script draws: lines of points, thinned so that a long run stays a light page."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from csprop.study.grokking import ALMOST, first, spike
from csprop.study.measure import short

MOST_POINTS = 400
"""Of one line, and a few that are marked; more than a screen can show."""
COLOURS = 8

Point = tuple[float, float]
EPOCH = {"label": "epoch", "whole": True}
PERCENT = {"percent": True}
LOG = {"log": True}


class Series(TypedDict):
    """One line: its own name, and the name and colour that it shares with its kind."""

    name: str
    group: str
    colour: int
    points: list[Point]


class Mark(TypedDict):
    """A point worth seeing."""

    label: str
    shape: str
    colour: int
    x: float
    y: float


class Chart(TypedDict):
    """Charts with the same `link` are zoomed together."""

    title: str
    link: str | None
    x: dict[str, Any]
    y: dict[str, Any]
    series: list[Series]
    marks: list[Mark]


def curve(values: Sequence[float], keep: Sequence[int] = ()) -> list[Point]:
    """Values by epoch, from 1 on, as points: thinned, but for the epochs to keep.

    Of a long run half of the points are at epochs that every run of its length keeps, so that lines can
    be compared; the others are the highest and the lowest of every stretch.
    """
    points: list[Point] = [(epoch, short(value)) for epoch, value in enumerate(values, start=1)]
    if len(points) <= MOST_POINTS:
        return points
    stretches = MOST_POINTS // 4
    kept = {round(place * (len(points) - 1) / (2 * stretches)) for place in range(2 * stretches + 1)}
    kept |= {epoch - 1 for epoch in keep}
    for stretch in range(stretches):
        low, high = (len(points) * each // stretches for each in (stretch, stretch + 1))
        heights = [(points[place][1], place) for place in range(low, high)]
        kept |= {min(heights)[1], max(heights)[1]}
    return [points[place] for place in sorted(kept)]


def jump(curves: Mapping[str, Sequence[float]], measured: str, colour: int) -> dict[str, list[Mark]]:
    """Where the accuracy first has 90% and 100%, and where the gradient norm is largest, by curve."""
    row = {"curve": curves}
    marks: dict[str, list[Mark]] = {name: [] for name in (measured, "loss", "grad_norm")}

    def add(name: str, label: str, shape: str, epoch: int) -> None:
        height = short(curves[name][epoch - 1])
        if height:  # a logarithm has no 0
            mark = Mark(label=label, shape=shape, colour=colour, x=epoch, y=height)
            marks[name].append(mark)

    for level, label, shape in ((ALMOST, "first 90%", "ring"), (1.0, "first 100%", "dot")):
        if epoch := first(row, level):
            add(measured, label, shape, epoch)
    if curves["grad_norm"]:
        add("grad_norm", "largest gradient norm", "spike", spike(row))
    return marks
