"""`csprop bench`: what things cost on this machine, beside their peers."""

from dataclasses import dataclass
from typing import Any

from csprop.cli import common


@dataclass(frozen=True, kw_only=True)
class Args:
    """Measure csprop beside its peers: one thread, in turn, medians."""

    quick: common.Flag = False
    """Less than a minute, with fewer rounds and shorter sequences, and without memory."""

    json: common.Flag = False
    """One JSON document on stdout."""


def parse(argv: list[str]) -> Args:
    return common.parse(Args, "bench", argv)


def run(args: Args) -> int:
    from csprop.bench.measure import one_thread
    from csprop.bench.works import all_works
    from csprop.training.config import environment

    one_thread()
    facts, results = environment(), []
    if not args.json:
        print(f"{facts['cpu']}, torch {facts['torch']}, backend {facts['backend']}, 1 thread, float32")
    for result in all_works(args.quick):
        results.append(result)
        if not args.json:
            _show(result)
    if args.json:
        common.show_json({"environment": facts, "quick": args.quick, "results": results})
    return 0


def _show(result: dict[str, Any]) -> None:
    print()
    if "seconds" in result:
        own = result["seconds"]["csprop"]
        sizes = result.get("parameters", {})
        rows = [
            [name, f"{value / own:.2f} x", _time(value), *([f"{sizes[name]:,}"] if sizes else [])]
            for name, value in result["seconds"].items()
        ]
        headings = ["", "times csprop", "median", *(["parameters"] if sizes else [])]
        common.show_table(headings, rows, result["work"])
    elif "microseconds" in result:
        lengths = list(result["microseconds"]["csprop"])
        rows = [
            [length, *(_cell(row.get(length)) for row in result["microseconds"].values())]
            for length in lengths
        ]
        common.show_table(["T", *result["microseconds"]], rows, result["work"])
    else:
        rows = [[name, f"{value:.1f}"] for name, value in result["activations"].items()]
        common.show_table(["", "activations a layer"], rows, result["work"])
    for promise in result["promises"]:
        bound = "at least" if promise["is"] == "faster" else "at most"
        if promise["met"] is None:
            print(f"  unknown {promise['peer']}: not installed (pip install 'csprop[bench]')")
            continue
        print(
            f"  {'met   ' if promise['met'] else 'MISSED'}  {promise['peer']}: "
            f"{promise['times']:.2f} x, promised {bound} {promise['promised']:g} x"
        )


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= factor:
            return f"{seconds / factor:.2f} {unit}"
    return f"{seconds * 1e6:.1f} µs"
