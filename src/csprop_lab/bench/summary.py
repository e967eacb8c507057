"""The tables and sentences of the README and the guide that are made of results/bench.json."""

from collections.abc import Sequence
from typing import Any

from csprop_lab.study.texts import markdown

Document = dict[str, Any]
UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}
MODULE = "csprop as a torch module"
ANOTHER = (
    "reference loop",
    "torch associative_scan, eager",
    "csprop, row by row",
    "onnxruntime's LSTM",
)
"""Other measurements that the table shows, at most one for each work."""
FEW = {
    "paper": "training step, the paper's model, width 64, 3 layers, 64 × 16 tokens",
    "rotor": "training step, csprop's model of parity, width 32, 64 × 16 tokens",
    "stream": "one more token of a stream, the paper's model",
}
"""The works that the README shows, in its words."""


def few(document: Document) -> str:
    """The README's table: csprop beside nn.LSTM, in Markdown."""
    works = {work["name"]: work["seconds"] for work in document["results"] if work["name"] in FEW}
    lines = [
        [words, duration(works[name]["csprop"]), duration(works[name]["nn.LSTM"]),
         f"{factor(works[name]['nn.LSTM'] / works[name]['csprop'])} ×"]
        for name, words in FEW.items()
    ]  # fmt: skip
    return markdown(["one CPU core", "csprop", "`nn.LSTM`", "ratio"], lines)


def summary(document: Document) -> str:
    """Return the machine, the ratios of others to csprop, and the times of commands, in Markdown."""
    works = document["results"]
    timed = [work for work in works if work["base"] == "csprop" and "seconds" in work]
    lines = [_line(work) for work in timed if "one alone" not in work["seconds"]]
    headings = ["work", "csprop", "nn.LSTM", MODULE, "another"]
    parts = [_where(document), markdown(headings, lines), *map(_sentence, works)]
    parts += [_layers(work) for work in works if "parts" in work]
    parts += [_commands(work) for work in works if work["base"] != "csprop"]
    return "\n\n".join([part for part in parts if part] + _sizes(works))


def _where(document: Document) -> str:
    quick = "**A quick run: these numbers are not results.** " if document["quick"] else ""
    return quick + (
        "{cpu}, csprop {csprop}, torch {torch}, Python {python}, {backend} backend, float32, one "
        "thread where nothing else is said. The allocator, for all: {allocator}. Medians, with "
        "quartiles in brackets; all were measured in turn."
    ).format(**document["environment"])


def _line(work: Document) -> list[str]:
    """The time of csprop, and how many times as long others take."""
    figures = work["seconds"]
    own = f"{duration(figures['csprop'])} ({spread(work['quartiles']['csprop'])})"

    def ratio(name: str) -> str:
        return f"{factor(figures[name] / figures['csprop'])} ×" if name in figures else ""

    another = next((f"{name}: {ratio(name)}" for name in ANOTHER if name in figures), "")
    return [work["work"], own, ratio("nn.LSTM"), ratio(MODULE), another]


def _sentence(work: Document) -> str:
    """Return a work without ratios of times in words; empty for the others."""
    if "microseconds" in work:
        figures = work["microseconds"]
        own, other = figures["csprop"], figures["nn.LSTM"]
        at, longest, shared = "1024", max(own, key=int), max(other, key=int)
        return (
            f"A training step on one row: {factor(own[at])} µs a token at T = {int(at):,} and "
            f"{factor(own[longest])} at T = {int(longest):,}; at T = {int(shared):,} nn.LSTM takes "
            f"{factor(other[shared] / own[shared])} times as long as csprop."
        )
    if "activations" in work:
        found = {
            name: "less than 0.1" if value < 0.05 else f"{value:.1f}"
            for name, value in work["activations"].items()
        }
        said = ", ".join(f"{name} {value}" for name, value in found.items())
        if not said:
            return ""
        return f"{work['work'][0].upper()}{work['work'][1:]}: {said}."
    if "one alone" in work.get("seconds", {}):
        own, alone = work["seconds"]["csprop"], work["seconds"]["one alone"]
        return (
            f"{work['work'][0].upper()}{work['work'][1:]}: {duration(own)}; of one that is trained "
            f"alone, {factor(alone / own)} times that."
        )
    return ""


def _layers(work: Document) -> str:
    """Networks of one size by data set: the time of csprop, and how many times as long others take."""
    lines, names = [], list(dict.fromkeys(name for part in work["parts"] for name in part["seconds"]))
    for part in work["parts"]:
        own = part["seconds"]["csprop"]
        cells = [f"{factor(part['seconds'][name] / own)} ×" for name in names if name != "csprop"]
        sizes = sorted(part["parameters"].values())
        lines.append([
            part["work"], f"{duration(own)} ({spread(part['quartiles']['csprop'])})", *cells,
            f"{sizes[0]:,} to {sizes[-1]:,}",
        ])  # fmt: skip
    return markdown([work["work"], *names, "parameters"], lines) if lines else ""


def _commands(work: Document) -> str:
    base = work["seconds"][work["base"]]
    lines = [
        [f"`{name}`", f"{duration(value)} ({spread(work['quartiles'][name])})", factor(value / base)]
        for name, value in work["seconds"].items()
    ]
    return markdown([work["work"], "time", f"times `{work['base']}`"], lines)


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
    """Return text such as "2.00 ms"."""
    return _in_unit(seconds, seconds)


def spread(ends: Sequence[float]) -> str:
    """Return text such as "0.90–2.10 ms", in the unit of the larger end."""
    low, high = ends
    if low == high:
        return "one sample"
    return f"{_in_unit(low, high).split()[0]}–{_in_unit(high, high)}"


def _in_unit(seconds: float, largest: float) -> str:
    """In the unit that is suitable for the largest of some times."""
    unit = next((unit for unit, size in UNITS.items() if largest >= size), "µs")
    return f"{seconds / UNITS[unit]:.{1 if unit == 'µs' else 2}f} {unit}"
