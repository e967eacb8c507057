"""`csprop bench`: speed and memory on this machine, next to other implementations."""

from dataclasses import dataclass
from typing import Annotated, Any

from csprop.cli import common
from csprop.cli.options import Arg
from csprop_lab.cli.where import choose


@dataclass(frozen=True, kw_only=True)
class Args(common.Arguments):
    """Measure csprop next to nn.LSTM, nn.GRU, a Transformer and other scans.

    Times are medians on one thread; all models are measured in turn, with one allocator.

    On a busy machine, and with --quick, the ratios differ from the README's.

    Examples:
        csprop bench --quick
        csprop bench --only rotor,scan
    """

    quick: common.Flag = False
    """Take less than a minute: few rounds, shorter sequences."""

    only: Annotated[str | None, Arg("WORKS", "(default: all)")] = None
    """Works to measure, such as rotor,scan. There are paper, long,
    wide, rotor, router, counter, layer, seeds, lengths, memory,
    scan, inputs, stream and commands."""


def run(args: Args) -> int:
    from csprop.training.config import environment
    from csprop_lab.bench.measure import settle
    from csprop_lab.bench.works import WORKS, measure_work, versions

    usual = [name for name in WORKS if not (args.quick and name == "memory")]
    names, allocator = choose(args.only, "work", WORKS) or usual, settle()
    facts = environment() | {"allocator": allocator} | versions()
    if not args.json:
        where = "{cpu}, torch {torch}, backend {backend}, 1 thread, float32. Allocator: {allocator}."
        common.show_text(where.format(**facts))
    results = []
    for name in names:
        results.append(measure_work(name, args.quick))
        if args.json:
            common.say(f"measured: {results[-1]['work']}")
        else:
            _show(results[-1])
    if args.json:
        common.show_json({"environment": facts, "quick": args.quick, "results": results})
    return 0


def _show(result: dict[str, Any]) -> None:
    print()
    common.show_text(result["work"])
    if "seconds" in result:
        _show_times(result, result["base"])
    elif "parts" in result:
        for part in result["parts"]:
            common.show_text(part["work"])
            _show_times(part, result["base"])
    elif "microseconds" in result:
        table = result["microseconds"]
        rows = [
            [f"{int(length):,}", *(_cell(row.get(length)) for row in table.values())]
            for length in table["csprop"]
        ]
        common.show_table(["T", *table], rows)
    else:
        rows = [[name, f"{value:.1f}"] for name, value in result["activations"].items()]
        common.show_table(["", "activations"], rows)
    for package in result["missing"]:
        common.show_text(f"{package} is not installed: pip install 'csprop-lab[bench]'")


def _show_times(result: dict[str, Any], base_name: str) -> None:
    from csprop_lab.bench.summary import duration, factor, spread

    base, sizes = result["seconds"][base_name], result.get("parameters", {})
    rows = [
        [
            name,
            factor(value / base),
            duration(value),
            spread(result["quartiles"][name]),
            *([f"{sizes[name]:,}"] if sizes else []),
        ]
        for name, value in result["seconds"].items()
    ]
    headings = ["", "ratio", "median", "quartiles"]
    common.show_table([*headings, *(["parameters"] if sizes else [])], rows)


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
