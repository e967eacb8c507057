"""The bench in one table: what the README shows of results/bench.json."""

from typing import Any

Document = dict[str, Any]


def summary(document: Document) -> str:
    """Where it was measured, the table, and how many aims were missed, in Markdown.

    Args:
        document: as `csprop bench --json` prints it.
    """
    works = document["results"]
    lines = [[work["work"], _own(work), _beside(work), _aims(work)] for work in works]
    headings = ["work", "csprop", "others, relative to csprop", "aim"]
    rule = ["---"] * len(headings)
    table = "\n".join(f"| {' | '.join(line)} |" for line in (headings, rule, *lines))
    return "\n\n".join([_where(document["environment"]), table, _sizes(works) + _missed(works)])


def _where(environment: Document) -> str:
    return (
        "{cpu}, csprop {csprop}, torch {torch}, Python {python}, {backend} backend, float32, "
        "threads: {threads}. Medians of one run, everything measured in turn."
    ).format(**environment)


def _own(work: Document) -> str:
    if "seconds" in work:
        return duration(work["seconds"]["csprop"])
    if "microseconds" in work:
        by_length = work["microseconds"]["csprop"]
        return ", ".join(
            f"{factor(by_length[at])} at T = {int(at):,}" for at in ("1024", max(by_length, key=int))
        )
    return factor(work["activations"]["csprop"]) if "csprop" in work["activations"] else "unknown"


def _beside(work: Document) -> str:
    """The other models, as multiples of what csprop takes; of growth with length, at T = 1,024."""
    if "microseconds" in work:
        figures = {name: row["1024"] for name, row in work["microseconds"].items() if "1024" in row}
    else:
        figures = work.get("seconds") or work["activations"]
    own = figures.get("csprop")
    others = (name for name in figures if name != "csprop")
    beside = ", ".join(f"{name} {factor(figures[name] / own)}" for name in others) if own else ""
    return f"at T = 1,024: {beside}" if "microseconds" in work else beside


def _aims(work: Document) -> str:
    return "; ".join(_aim(aim) for aim in work["aims"])


def _aim(aim: Document) -> str:
    asked = f"{aim['peer']} at {'least' if aim['is'] == 'faster' else 'most'} {aim['aim']:g}"
    if aim["met"] is None:
        return f"{asked}: not measured"
    return f"{asked}, is {factor(aim['times'])}: {'reached' if aim['met'] else '**missed**'}"


def _missed(works: list[Document]) -> str:
    met = [aim["met"] for work in works for aim in work["aims"] if aim["met"] is not None]
    return f"Aims missed: {met.count(False)} of {len(met)}."


def _sizes(works: list[Document]) -> str:
    sizes = next((work["parameters"] for work in works if "parameters" in work), {})
    peers = ", ".join(f"{name} {n:,}" for name, n in sizes.items() if n != sizes["csprop"])
    if not peers:
        return ""
    return (
        "Same width and depth is not the same size: csprop's printed model has "
        f"{sizes['csprop']:,} parameters, {peers}. "
    )


def factor(value: float) -> str:
    """A ratio with about three digits."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Such as "2.00 ms"."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds * 1e6:.1f} µs"
