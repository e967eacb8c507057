"""What the page's script draws: lines of points, thinned so that a long run stays a light page."""

import math
from collections.abc import Sequence
from typing import Any, TypedDict

MOST_POINTS = 400
"""Of one line; more than a screen can show."""
COLOURS = 8

Point = tuple[float, float | None]
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


def curve(values: Sequence[float | None], keep: Sequence[int] = ()) -> list[Point]:
    """Values by epoch, from 1 on, as points; those of the given epochs are never left out."""
    points: list[Point] = [(epoch, _short(value)) for epoch, value in enumerate(values, start=1)]
    chosen = {epoch for epoch in keep if epoch <= len(points)}
    chosen.update(int(epoch) for epoch, _ in thinned(points))
    return [point for point in points if point[0] in chosen]


def thinned(points: Sequence[Point]) -> list[Point]:
    """At most `MOST_POINTS`: the ends, and of every stretch between the highest and the lowest."""
    if len(points) <= MOST_POINTS:
        return list(points)
    stretches = (MOST_POINTS - 2) // 2
    inner, kept = points[1:-1], {0, len(points) - 1}
    for stretch in range(stretches):
        low, high = (len(inner) * each // stretches for each in (stretch, stretch + 1))
        heights = [
            (y, 1 + low + place) for place, (_, y) in enumerate(inner[low:high]) if y is not None
        ]
        if heights:
            kept |= {min(heights)[1], max(heights)[1]}
    return [points[place] for place in sorted(kept)]


def _short(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")
