"""`csprop compile`: an exact model of a machine, with its proof."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from csprop.cli import common
from csprop.cli.options import Arg


@dataclass(frozen=True, kw_only=True)
class Args(common.Arguments):
    """Write a machine into the weights of a model, and prove that both always give the same answers.

    The model is a router layer with a place for each state. For a machine that counts, it stands above
    a layer of counters. Exit code 0 means proven.

    Examples:
        csprop example machine.json
        csprop compile machine.json --out runs/turnstile
    """

    automaton: Annotated[Path, Arg("AUTOMATON.json", positional=True)]
    """A machine in JSON, as `csprop automaton` prints it."""

    out: Annotated[Path, Arg("RUN")]
    """The run directory to write."""


def run(args: Args) -> int:
    from csprop.automata.sources import read_automaton
    from csprop.training.checkpoint import refuse_existing

    common.check_file(args.automaton)
    read_automaton(args.automaton)  # a mistake is told before torch is imported
    refuse_existing([args.out], resumable=False)
    from csprop.runs.machines import compile

    made = compile(args.automaton, args.out)
    certificate, task = made.certificate, made.task
    assert certificate is not None
    counting = task.counting
    document: dict[str, Any] = {
        "run": str(args.out),
        "states": len(task.machine if counting is None else counting),
        "counters": 0 if counting is None else counting.counters,
        "minimal_states": certificate.minimal_states,
        "tokens": len(task.vocab),
        "classes": len(task.classes),
        "places": made.model.routers[0].maps.shape[-1],
        "parameters": sum(each.numel() for each in made.model.parameters()),
        "pairs": 0 if certificate.proof is None else len(certificate.proof.pairs),
        "verdict": certificate.verdict,
        "proven": certificate.proven,
        "statement": certificate.statement,
    }
    if args.json:
        common.show_json(document)
    else:
        _show(**document)
    return int(not certificate.proven)


def _show(run: str, states: int, counters: int, **found: Any) -> None:
    print(f"{run}: {found['verdict'] if found['proven'] else 'not proven'}\n")
    common.show_text(found["statement"])
    if not found["proven"]:
        return
    counted = f"{counters} counter{'s' if counters > 1 else ''}"
    size = f"{states} states, {counted}" if counters else f"{states} reachable states"
    layers = f"{counted} and a router" if counters else "a router"
    sizes = "{minimal_states} in the smallest; {tokens} tokens, {classes} classes".format(**found)
    print()
    common.show_facts(
        [
            ("machine", f"{size}, {sizes}"),
            ("model", f"{layers} of {found['places']} places, {found['parameters']:,} parameters"),
            ("proof", f"{found['pairs']:,} pairs of states, in each of which both answer the same"),
        ]
    )
    print()
    common.show_next(f"certify {run} --check", f"predict {run}", f"explore {run}")
