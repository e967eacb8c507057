"""`csprop automaton`: the machine that a certified run has become, as source or as a picture."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import arg

from csprop.cli import common
from csprop.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Args:
    """Print the smallest automaton that computes what a certified run computes."""

    run: Annotated[Path, tyro.conf.Positional, arg(metavar="RUN")]
    """A run directory with a certificate."""

    format: Literal["json", "dot", "python", "c"] = "json"
    """JSON, Graphviz, or a program in Python or C that needs nothing else."""

    picture: Annotated[Path | None, arg(metavar="FILE")] = None
    """Also draw it: a name that ends in .png, .svg or .pdf."""

    json: common.Flag = False
    """One JSON document on stdout, with the source as a string."""


def parse(argv: list[str]) -> Args:
    return common.parse(Args, "automaton", argv)


def run(args: Args) -> int:
    from csprop.automata.export import FORMATS
    from csprop.runs import load

    loaded = load(args.run)
    automaton, certificate = loaded.automaton, loaded.certificate
    if automaton is None or certificate is None:
        raise InputError(f"{args.run}: is not proven: `csprop certify {args.run}` must succeed first")
    source = FORMATS[args.format](automaton)
    if args.picture is not None:
        from csprop.automata.drawing import draw

        draw(automaton, args.picture)
    if certificate.unchecked:
        common.say(f"{args.run}: its certificate cannot be checked ({certificate.unchecked})")
    else:
        drawn = "" if args.picture is None else f", drawn in {args.picture}"
        common.say(f"{args.run}: {certificate.verdict}; {len(automaton)} states{drawn}")
    if args.json:
        facts = {"run": str(args.run), "states": len(automaton), "format": args.format}
        picture = None if args.picture is None else str(args.picture)
        common.show_json(facts | {"source": source, "picture": picture})
    else:
        print(source, end="")
    return 0
