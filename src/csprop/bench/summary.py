"""The bench in two tables: what the README shows of results/bench.json."""

from collections.abc import Sequence
from typing import Any

Document = dict[str, Any]
UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}


def summary(document: Document) -> str:
    """Where it was measured, how others compare with csprop, and how long commands take, in Markdown.

    Args:
        document: as `csprop bench --json` prints it.
    """
    works = document["results"]
    lines = [[work["work"], _own(work), *_beside(work)] for work in works if work["base"] == "csprop"]
    headings = ["work", "csprop", "nn.LSTM, times csprop", "others, times csprop"]
    parts = [_where(document), _table(headings, lines)]
    parts += [_commands(work) for work in works if work["base"] != "csprop"]
    return "\n\n".join([*parts, *_sizes(works)])


def _table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(headings)
    return "\n".join(f"| {' | '.join(line)} |" for line in (headings, rule, *lines))


def _where(document: Document) -> str:
    quick = "**A quick run: these numbers are not results.** " if document["quick"] else ""
    return quick + (
        "{cpu}, csprop {csprop}, torch {torch}, Python {python}, {backend} backend, float32, one "
        "thread where nothing else is said. The allocator, for all: {allocator}. Medians, with "
        "quartiles in brackets; all were measured in turn."
    ).format(**document["environment"])


def _own(work: Document) -> str:
    if "seconds" in work:
        return f"{duration(work['seconds']['csprop'])} ({spread(work['quartiles']['csprop'])})"
    if "microseconds" in work:
        by_length = work["microseconds"]["csprop"]
        return ", ".join(
            f"{factor(by_length[at])} at T = {int(at):,}" for at in ("1024", max(by_length, key=int))
        )
    own = work["activations"].get("csprop")
    return "unknown" if own is None else f"{own:.1f}" if own >= 0.05 else "less than 0.1"


def _beside(work: Document) -> list[str]:
    """nn.LSTM and all others, as multiples of what csprop takes; of several lengths, at the longest."""
    if "microseconds" in work:
        figures = work["microseconds"]
        own, ends = figures["csprop"], {name: max(row, key=int) for name, row in figures.items()}
        ratios = {
            name: f"{factor(figures[name][end] / own[end])} at T = {int(end):,}"
            for name, end in ends.items()
        }
    elif "activations" in work:  # those of csprop may be next to none: no ratio
        ratios = {name: f"itself {value:.1f}" for name, value in work["activations"].items()}
    else:
        figures = work["seconds"]
        ratios = {name: factor(value / figures["csprop"]) for name, value in figures.items()}
    others = [f"{name} {ratio}" for name, ratio in ratios.items() if name not in ("csprop", "nn.LSTM")]
    missing = [f"{package} is not installed" for package in work["missing"]]
    return [ratios.get("nn.LSTM", ""), ", ".join([*others, *missing])]


def _commands(work: Document) -> str:
    base = work["seconds"][work["base"]]
    lines = [
        [f"`{name}`", f"{duration(value)} ({spread(work['quartiles'][name])})", factor(value / base)]
        for name, value in work["seconds"].items()
    ]
    return _table([work["work"], "time", f"times `{work['base']}`"], lines)


def _sizes(works: list[Document]) -> list[str]:
    sizes = next((work["parameters"] for work in works if "parameters" in work), {})
    peers = ", ".join(f"{name} {n:,}" for name, n in sizes.items() if n != sizes["csprop"])
    if not peers:
        return []
    return [
        "The same width and depth is not the same size: of the first row, csprop has "
        f"{sizes['csprop']:,} parameters, {peers}."
    ]


def factor(value: float) -> str:
    """A ratio with about three digits."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Such as "2.00 ms"."""
    return _in_unit(seconds, seconds)


def spread(ends: Sequence[float]) -> str:
    """Such as "0.90–2.10 ms", in the unit of the larger end."""
    low, high = ends
    if low == high:
        return "one sample"
    return f"{_in_unit(low, high).split()[0]}–{_in_unit(high, high)}"


def _in_unit(seconds: float, largest: float) -> str:
    """In the unit that is suitable for the largest of some times."""
    unit = next((unit for unit, size in UNITS.items() if largest >= size), "µs")
    return f"{seconds / UNITS[unit]:.{1 if unit == 'µs' else 2}f} {unit}"
