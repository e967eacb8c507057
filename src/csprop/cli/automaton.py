"""`csprop automaton`: the machine that a certified run has become, as source and as a picture."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import arg

from csprop.cli import common
from csprop.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Args:
    """Print the smallest automaton that computes what a certified run computes, and draw it."""

    run: Annotated[Path, tyro.conf.Positional, arg(metavar="RUN")]
    """A run directory with a certificate."""

    format: Literal["json", "dot", "python", "c"] = "json"
    """JSON, Graphviz, or a program in Python or C that needs nothing else."""

    picture: Annotated[Path | None, arg(metavar="FILE")] = None
    """Where to draw it (.png, .svg or .pdf). Default: automaton.png in the run."""

    json: common.Flag = False
    """One JSON document on stdout, with the source as a string."""


def parse(argv: list[str]) -> Args:
    return common.parse(Args, "automaton", argv)


def run(args: Args) -> int:
    from csprop.exact.store import load_locked
    from csprop.training.run import load

    loaded = load(args.run)
    locked = load_locked(loaded)
    if locked is None:
        raise InputError(f"{args.run}: is not proven: `csprop certify {args.run}` must succeed first")
    task = loaded.task
    machine = locked.automaton(task.vocab, task.classes, task.words).minimal()
    source = _source(machine, args.format)
    drawn = _draw(machine, args.picture or args.run / "automaton.png", common.verdict_of(loaded))
    if args.json:
        facts = {"run": str(args.run), "states": len(machine), "format": args.format}
        common.show_json(facts | {"source": source, "picture": drawn})
    else:
        print(source, end="")
    return 0


def _source(machine: Any, format: str) -> str:
    from csprop.exact import export

    if format == "json":
        return json.dumps(machine.to_json(), indent=2, ensure_ascii=False) + "\n"
    write = {"dot": export.to_dot, "python": export.to_python, "c": export.to_c}[format]
    return write(machine)


def _draw(machine: Any, path: Path, verdict: str) -> str | None:
    from csprop.exact.drawing import MOST, draw

    if len(machine) > MOST:
        common.say(f"csprop automaton: {len(machine)} states are too many to draw")
        return None
    draw(machine, path)
    common.say(f"{verdict}: {len(machine)} states, drawn in {path}")
    return str(path)
