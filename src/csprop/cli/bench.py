"""`csprop bench`: speed and memory on this machine, next to other implementations."""

from dataclasses import dataclass
from typing import Any

from csprop.cli import common


@dataclass(frozen=True, kw_only=True)
class Args:
    """Measure csprop next to nn.LSTM, nn.GRU, a Transformer and other scans.

    Times are medians on one thread; all models are measured in turn.

    On a busy machine, and with --quick, the ratios differ from the README's.
    """

    quick: common.Flag = False
    """Take less than a minute: fewer rounds, shorter sequences, no memory test."""

    json: common.Flag = False
    """Print one JSON document on stdout."""


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
    from csprop.bench.summary import duration

    print(f"\n{result['work']}")
    if "seconds" in result:
        own = result["seconds"]["csprop"]
        sizes = result.get("parameters", {})
        rows = [
            [name, f"{value / own:.2f} x", duration(value), *([f"{sizes[name]:,}"] if sizes else [])]
            for name, value in result["seconds"].items()
        ]
        headings = ["", "times csprop", "median", *(["parameters"] if sizes else [])]
        common.show_table(headings, rows)
    elif "microseconds" in result:
        lengths = list(result["microseconds"]["csprop"])
        rows = [
            [f"{int(length):,}", *(_cell(row.get(length)) for row in result["microseconds"].values())]
            for length in lengths
        ]
        common.show_table(["T", *result["microseconds"]], rows)
    else:
        rows = [[name, f"{value:.1f}"] for name, value in result["activations"].items()]
        common.show_table(["", "activations per layer"], rows)
    for aim in result["aims"]:
        _show_aim(aim)


def _show_aim(aim: dict[str, Any]) -> None:
    if aim["met"] is None:
        print(f"  unknown: {aim['peer']} is not installed (pip install 'csprop[bench]')")
        return
    verdict = "reached" if aim["met"] else "MISSED "
    if aim["is"] == "faster":
        faster = f"{aim['times']:.2f} x faster than {aim['peer']}"
        print(f"  {verdict}  {faster}; aim: at least {aim['aim']:g} x")
    else:
        print(f"  {verdict}  {aim['times']:.2f} x {aim['peer']}; aim: at most {aim['aim']:g} x")


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
