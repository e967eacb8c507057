"""Charts as the page's script draws them, thinned so that a long run makes a small page."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

ALMOST = 0.9
"""The accuracy at which a jump to 100% begins."""
MOST_POINTS = 400
"""Of one line, besides a few that are marked; more than a screen can show."""
COLOURS = 8
"""How many colours the page's style has for lines."""

Point = tuple[float, float]
# Axes.
PERCENT = {"percent": True}
LOG = {"log": True}
EPOCH = {"label": "epoch", "whole": True}
LENGTH = {"label": "length", "sampled": True} | LOG  # nothing is known between two points


class Series(TypedDict):
    """One line: its own name, and the name and colour that it shares with its group."""

    name: str
    group: str
    colour: int
    points: list[Point]


class Mark(TypedDict):
    """A point that is marked."""

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
    """Values by epoch, counted from 1, as points; those of a long run are thinned.

    Half of the points that stay are at epochs that every run of this length keeps, so that lines can be
    compared; the others are the highest and the lowest of every stretch.

    Args:
        keep: epochs whose points stay in any case.
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
    """Marks at the first 90% and the first 100%, and at the largest gradient norm, by curve."""
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


def short(value: float) -> float:
    """Rounded to four digits, as curves are stored in rows and pages."""
    return float(f"{value:.4g}")


def first(row: Mapping[str, Any], level: float) -> int | None:
    """The first epoch whose accuracy is at least this high."""
    accuracy = row.get("curve", {}).get("accuracy", [])
    return next((epoch for epoch, value in enumerate(accuracy, start=1) if value >= level), None)


def spike(row: Mapping[str, Any]) -> int:
    """The epoch with the largest gradient norm."""
    norms = row["curve"]["grad_norm"]
    return norms.index(max(norms)) + 1
