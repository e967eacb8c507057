"""`csprop automaton`: export a certified run as source code, as JSON, as text or as a picture."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from csprop.cli import common
from csprop.cli.options import Arg
from csprop.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Args(common.Arguments):
    """Print the smallest automaton that does what a certified run does.

    Examples:
        csprop automaton runs/parity --format text
        csprop automaton runs/parity --format c > parity.c
        csprop automaton runs/parity --picture parity.png
    """

    run: Annotated[Path, Arg("RUN", positional=True)]
    """A run directory with a certificate, or one of `csprop zoo`, such as zoo:parity."""

    format: Literal["json", "text", "dot", "python", "c"] = "json"
    """JSON, a drawing for the terminal, Graphviz, or a Python or C program that needs no library."""

    picture: Annotated[Path | None, Arg("FILE", "")] = None
    """Also draw the automaton, to a file whose name ends in .png, .svg or .pdf."""


def run(args: Args) -> int:
    from csprop.automata.export import FORMATS
    from csprop.proof.answers import load_certified

    certified = load_certified(args.run)
    automaton = None if certified is None else certified.certificate.automaton
    if certified is None or automaton is None:
        raise InputError(f"{args.run}: is not certified: run `csprop certify {args.run}` first")
    size = {"states": len(automaton), "counters": automaton.counters}
    source = common.draw(automaton) if args.format == "text" else FORMATS[args.format](automaton)
    if args.picture is not None:
        from csprop.automata.drawing import draw

        draw(automaton, args.picture)
    drawn = "" if args.picture is None else f", drawn in {args.picture}"
    common.say(f"{args.run}: {certified.certificate.summary}; {certified.certificate.size}{drawn}")
    if args.json:
        picture = None if args.picture is None else str(args.picture)
        facts = {"run": str(args.run), **size, "format": args.format, "source": source}
        common.show_json(facts | {"picture": picture})
    else:
        print(source, end="")
    return 0
