"""`csprop compare`: the layers of the field, and your own, on state tracking."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from csprop.cli import common
from csprop.cli.options import Arg
from csprop.errors import about
from csprop_lab.cli.where import Where, engine, split_names
from csprop_lab.layers import PEERS, check
from csprop_lab.study.protocols import OURS, PROTOCOLS, TABLED, choose_protocols

ACROSS = 3
"""Tasks side by side on a terminal."""


@dataclass(frozen=True)
class Args(Where):
    """Train layers on state tracking, all in the same way, by published protocols.

    csprop's own row is the preset that suits the task, trained by its own recipe and proven.

    Finished runs are not repeated: repeat an interrupted command to continue.

    Examples:
        csprop compare --list
        csprop compare --quick --models csprop,lstm,mamba
        csprop compare --models my_layer:MyLayer --tasks parity
    """

    models: Annotated[str | None, Arg("NAMES", "(default: all)")] = None
    """Layers, such as csprop,lstm,mamba: see --list. A
    layer of your own is MODULE:CLASS. It is called with
    a width, and maps (batch, time, width) to the same."""

    tasks: Annotated[str | None, Arg("NAMES", "(default: all)")] = None
    """Tasks of the protocols, such as parity,group-S5."""

    protocol: Annotated[str, Arg("NAMES", "(default: all but the two of files)")] = ",".join(TABLED)
    """Protocols: paper, chomsky, words, pairs,
    flip-flops, files, noisy-files."""

    list: common.Flag = False
    """List layers and protocols, and do nothing else."""

    quick: common.Flag = False
    """Take minutes: the first task of each protocol, few steps, one learning rate, one seed. Such
    numbers mean little."""

    seeds: Annotated[int | None, Arg("N", "(default: 5; with --quick, 1)")] = None
    """Number of seeds."""

    out: Annotated[Path | None, Arg("DIR", "(default: runs/compare; runs/compare-quick)")] = None
    """Directory for rows, tables and pictures."""


def run(args: Args) -> int:
    if args.list:
        return _list(args)
    run_jobs = engine(args)
    models = [*PEERS, *OURS] if args.models is None else split_names(args.models, "models")
    protocols = split_names(args.protocol, "protocol")
    tasks = None if args.tasks is None else split_names(args.tasks, "tasks")
    with about("models", args.models):
        for model in models:
            if model not in OURS:
                check(model)
    with about("protocol", args.protocol):
        choose_protocols(protocols, None)
    with about("tasks", args.tasks):
        choose_protocols(protocols, tasks)
    from csprop_lab.pages.compare import TEXT, compare
    from csprop_lab.study.compared import at_longest, at_trained, proven, short_text

    out = args.out or Path("runs/compare-quick" if args.quick else "runs/compare")
    comparison = compare(
        models=models,
        protocol=protocols,
        tasks=tasks,
        seeds=args.seeds,
        quick=args.quick,
        out=out,
        on=run_jobs(out / "unfinished"),
        say=common.say,
    )
    if args.json:
        found = [
            {
                "protocol": cell.protocol.name,
                "task": cell.task,
                "model": cell.model,
                "seeds": len(rows := cell.rows(comparison.results.rows)),
                "trained": [at_trained(row) for row in rows],
                "longest": [at_longest(row) for row in rows],
                "proven": proven(rows),
            }
            for cell in comparison.cells
        ]
        common.show_json({"text": str(out / TEXT), "cells": found})
        return 0
    for protocol in comparison.protocols:
        tasks = comparison.tasks(protocol.name)
        for start in range(0, len(tasks), ACROSS):
            some = comparison.lines(protocol.name, tasks[start : start + ACROSS], short_text)
            common.show_table(*some, title=protocol.title)
    common.show_text(
        "Accuracy of the median seed at the trained length, and at the longest tried. csprop has its "
        "own recipe and more steps" + (", the layers had few: do not compare." if args.quick else ".")
    )
    print(f"{out / TEXT}: the tables, and how they were made")
    return 0


def _list(args: Args) -> int:
    if args.json:
        layers = {name: peer.paper for name, peer in PEERS.items()}
        known = {name: list(each.tasks) for name, each in PROTOCOLS.items()}
        common.show_json({"layers": layers, "protocols": known})
        return 0
    print("Layers, and where they were published:")
    common.show_columns([*((name, each.paper) for name, each in PEERS.items()), *OURS.items()])
    print("\nProtocols, and where they are from:")
    common.show_columns([(each.name, each.source) for each in PROTOCOLS.values()])
    print("\nThe tasks of each protocol:")
    common.show_columns([(each.name, ", ".join(each.tasks)) for each in PROTOCOLS.values()])
    return 0
