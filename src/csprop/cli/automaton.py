"""`csprop automaton`: export a certified run as source code, as JSON, as text or as a picture."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from csprop.cli import common
from csprop.cli.options import Arg
from csprop.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Args:
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

    json: common.Flag = False
    """Print one JSON document on stdout, with the source as a string."""


def run(args: Args) -> int:
    from csprop.automata.automaton import CounterAutomaton
    from csprop.automata.export import FORMATS
    from csprop.automata.names import describe_size
    from csprop.proof.answers import load_certified

    certified = load_certified(args.run)
    certificate = None if certified is None else certified.certificate
    automaton = None if certificate is None else certificate.automaton
    if automaton is None or certificate is None:
        raise InputError(f"{args.run}: is not certified: run `csprop certify {args.run}` first")
    counters = automaton.counters if isinstance(automaton, CounterAutomaton) else 0
    source = common.drawing(automaton) if args.format == "text" else FORMATS[args.format](automaton)
    if args.picture is not None:
        from csprop.automata.drawing import draw

        draw(automaton, args.picture)
    if certificate.unchecked:
        common.say(f"{args.run}: the certificate could not be checked ({certificate.unchecked})")
    else:
        drawn = "" if args.picture is None else f", drawn in {args.picture}"
        held = describe_size(len(automaton), counters)
        common.say(f"{args.run}: {certificate.verdict}; {held}{drawn}")
    if args.json:
        facts = {"run": str(args.run), "states": len(automaton), "counters": counters}
        facts["format"] = args.format
        picture = None if args.picture is None else str(args.picture)
        common.show_json(facts | {"source": source, "picture": picture})
    else:
        print(source, end="")
    return 0
