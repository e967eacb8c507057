"""`csprop compile`: an exact model of a machine, with its proof."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import arg

from csprop.cli import common


@dataclass(frozen=True, kw_only=True)
class Args:
    """Write a machine into the weights of a model, and prove that both always give the same answers.

    The model is one router layer with a place for each state. Exit code 0 means proven.
    """

    automaton: Annotated[Path, tyro.conf.Positional, arg(metavar="AUTOMATON.json")]
    """A machine in JSON, as csprop automaton prints it."""

    out: Annotated[Path, arg(metavar="RUN", help_behavior_hint="(required)")]
    """The run directory to write."""

    json: common.Flag = False
    """Print one JSON document on stdout."""


def parse(argv: list[str]) -> Args:
    return common.parse(Args, "compile", argv)


def run(args: Args) -> int:
    from csprop.runs import compile

    made = compile(args.automaton, args.out)
    certificate, task = made.certificate, made.task
    assert certificate is not None
    document: dict[str, Any] = {
        "run": str(args.out),
        "states": len(task.machine),
        "minimal_states": certificate.document.get("minimal_states"),
        "tokens": len(task.vocab),
        "classes": len(task.classes),
        "places": made.config.model.places,
        "parameters": sum(each.numel() for each in made.model.parameters()),
        "pairs": len(certificate.document.get("pairs", ())),
        "verdict": certificate.verdict,
        "proven": certificate.proven,
        "statement": certificate.statement,
    }
    if args.json:
        common.show_json(document)
    else:
        _show(document)
    return int(not certificate.proven)


def _show(found: dict[str, Any]) -> None:
    path = found["run"]
    print(f"{path}: {found['verdict'] if found['proven'] else 'not proven'}\n")
    common.show_text(found["statement"])
    if found["proven"]:
        states, smallest = found["states"], found["minimal_states"]
        facts = {
            "machine": f"{states} states that can be reached, {smallest} in the smallest; "
            f"{found['tokens']} tokens, {found['classes']} classes",
            "model": f"a router of {found['places']} places, {found['parameters']:,} parameters",
            "proof": f"{found['pairs']:,} pairs of states, in each of which both answer the same",
        }
        print()
        for name, value in facts.items():
            print(f"{name:<10} {value}")
        verbs = (f"certify {path} --check", f"predict {path}", f"explore {path}")
        print("\nNext:", *(f"  csprop {verb}" for verb in verbs), sep="\n")
