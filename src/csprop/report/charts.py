"""Charts as the page's script draws them; a long curve is thinned to keep the page small."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

ALMOST = 0.9
"""The accuracy at which a jump to 100% begins."""
MOST_POINTS = 400
"""Points of one line, besides a few that are marked; more than a screen can show."""
COLOURS = 8
"""Colours of lines in the page's style."""
Point = tuple[float, float]
PERCENT = {"percent": True}
LOG = {"log": True}
EPOCH = {"label": "epoch", "whole": True}
LENGTH = {"label": "length", "sampled": True} | LOG  # nothing is known between two points


class Series(TypedDict):
    """One line; it shares the name and colour of its group."""

    name: str
    group: str
    colour: int
    points: list[Point]


class Mark(TypedDict):
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
    """Return values by epoch, counted from 1, as points, and thin them if they are many.

    Of many, the epochs in `keep` remain. Half of the others are at the same epochs for every run of
    this length, to compare lines; the rest are the highest and the lowest of every stretch.
    """
    points: list[Point] = [(epoch, short(value)) for epoch, value in enumerate(values, start=1)]
    if len(points) <= MOST_POINTS:
        return points
    stretches = MOST_POINTS // 4
    chosen = {round(i * (len(points) - 1) / (2 * stretches)) for i in range(2 * stretches + 1)}
    chosen |= {epoch - 1 for epoch in keep}
    for stretch in range(stretches):
        low, high = (len(points) * each // stretches for each in (stretch, stretch + 1))
        heights = [(points[place][1], place) for place in range(low, high)]
        chosen |= {min(heights)[1], max(heights)[1]}
    return [points[place] for place in sorted(chosen)]


def jump(curves: Mapping[str, Sequence[float]], measured: str, colour: int) -> dict[str, list[Mark]]:
    """Return marks at the first 90%, the first 100% and the largest gradient norm, by curve."""
    row = {"curve": curves}
    marks: dict[str, list[Mark]] = {name: [] for name in (measured, "loss", "grad_norm")}
    for name, label, shape, epoch in (
        (measured, "first 90%", "ring", first(row, ALMOST)),
        (measured, "first 100%", "dot", first(row, 1.0)),
        ("grad_norm", "largest gradient norm", "spike", spike(row) if curves["grad_norm"] else None),
    ):
        height = short(curves[name][epoch - 1]) if epoch else 0
        if epoch and height:  # a logarithm has no 0
            marks[name].append(Mark(label=label, shape=shape, colour=colour, x=epoch, y=height))
    return marks


def short(value: float) -> float:
    """Round to four digits, as curves are stored in rows and pages."""
    return float(f"{value:.4g}")


def first(row: Mapping[str, Any], level: float) -> int | None:
    """Return the first epoch whose accuracy is at least this high."""
    accuracy = row.get("curve", {}).get("accuracy", [])
    return next((epoch for epoch, value in enumerate(accuracy, start=1) if value >= level), None)


def spike(row: Mapping[str, Any]) -> int:
    """Return the epoch with the largest gradient norm."""
    norms = row["curve"]["grad_norm"]
    return norms.index(max(norms)) + 1
