"""`csprop learn`: from labelled sequences to the machine behind them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from csprop.cli import common
from csprop.cli.options import Arg
from csprop.errors import InputError

if TYPE_CHECKING:
    from csprop.automata.automaton import Automaton
    from csprop.learning.learn import Learned
    from csprop.learning.suspects import Suspect

MOST_SHOWN = 12
"""States and tokens up to which the machine's table is printed."""


@dataclass(frozen=True, kw_only=True)
class Args(common.Arguments):
    """Find the machine behind labelled sequences, although some labels may be wrong.

    The machine is written as a run, with the rows whose labels look wrong. Exit code 0 means that a
    machine was found, 1 that no machine is clearly better than none.

    Examples:
        csprop example events.jsonl
        csprop learn events.jsonl --out runs/events
        csprop learn tomita-4 --samples 400
    """

    source: Annotated[str, Arg("FILE|TASK", positional=True)]
    """A .jsonl, .csv or .tsv file of labelled sequences, or a built-in task, which `csprop tasks`
    lists."""

    seed: int = 0
    """Decides which rows are held out, and the first weights of networks."""

    out: Annotated[Path | None, Arg("RUN", "(default: runs/learned-NAME)")] = None
    """The run directory to write."""

    length: Annotated[int | None, Arg(hint="(default: 16)")] = None
    """Length of the sequences that are drawn for a task."""

    samples: Annotated[int | None, Arg(hint="(default: the task's)")] = None
    """Number of sequences that are drawn for a task."""


def run(args: Args) -> int:
    from csprop.data.formats import SUFFIXES
    from csprop.tasks import resolve
    from csprop.tasks.rows import RowsTask
    from csprop.training.checkpoint import refuse_existing

    if Path(args.source).suffix in SUFFIXES:
        common.check_file(Path(args.source))
    task = resolve(args.source)
    drawn: dict[str, Any] = {"length": args.length, "samples": args.samples}
    if isinstance(task, RowsTask):
        for name, value in drawn.items():
            if value is not None:
                raise InputError(f"{args.source} has its own rows: leave it out", name, value)
        common.say_rows(task)
    out = args.out or Path("runs") / f"learned-{task.name}"
    refuse_existing([out], resumable=False)
    from csprop.learning.learn import learn

    learned = learn(task, seed=args.seed, out=out, progress=False, on_event=common.say, **drawn)
    path = None if learned.run is None else str(out)
    if args.json:
        common.show_json(_document(learned, path))
    else:
        _show(learned, path)
    return int(not learned.verdict.clear)


def _document(learned: "Learned", path: str | None) -> dict[str, Any]:
    verdict, certificate = learned.verdict, learned.verdict.certificate
    return {
        "run": path,
        "verdict": verdict.sentence,
        "text": verdict.text,
        "clear": verdict.clear,
        "states": verdict.states,
        **verdict.to_json(),
        "proven": certificate is not None and certificate.proven,
        "statement": None if certificate is None else certificate.statement,
        "counterexample": None if certificate is None else certificate.document.get("counterexample"),
        "suspects": [asdict(each) for each in learned.suspects],
        "candidates": [
            {
                "method": each.method,
                "states": len(each.machine),
                "held_out_wrong": each.misses,
                "bits": round(each.bits, 3),
                "seconds": round(each.seconds, 3),
            }
            for each in learned.candidates
        ],
        "automaton": learned.machine.to_json() if verdict.clear else None,
    }


def _show(learned: "Learned", path: str | None) -> None:
    from csprop.automata.counting import CounterMachine

    common.show_text(learned.verdict.text)
    print()
    if path is None:
        common.show_text(
            "Nothing was written. More rows, or rows with fewer wrong labels, may show a machine, "
            "unless the labels depend on something that is not in the sequences."
        )
        return
    if isinstance(learned.machine, CounterMachine):
        print(common.draw(learned.machine))
    else:
        _show_states(learned.machine, learned.verdict.unseen)
    if learned.suspects:
        show_suspects(learned.suspects, path)
    common.show_next(f"predict {path}", f"automaton {path}", f"explore {path}")


def show_suspects(suspects: "Sequence[Suspect]", path: str) -> None:
    """Print a table of rows whose labels look wrong."""
    from csprop.learning.suspects import FEW, LONGEST

    rows = [[each.short(LONGEST), str(each.line), each.label, each.answer] for each in suspects[:FEW]]
    some = f": the first {FEW} of {len(suspects):,}, all" if len(suspects) > FEW else ", also"
    title = f"Suspects{some} in {path}/suspects.jsonl"
    common.show_table(["sequence", "line", "label", "machine says"], rows, title)
    print()


def _show_states(machine: "Automaton", unseen: frozenset[tuple[int, int]]) -> None:
    """Print a table of the states, unless it is large; a transition that no row takes has a ?."""
    if max(len(machine), machine.symbols) > MOST_SHOWN:
        return
    rows = []
    for state, (output, moves) in enumerate(zip(machine.outputs, machine.transitions, strict=True)):
        places = [f"{to}{'?' if (state, token) in unseen else ''}" for token, to in enumerate(moves)]
        answer = "" if output is None else machine.classes[output]
        rows.append([f"{'→' if state == machine.start else ' '} {state}", answer, *places])
    common.show_table(["state", "answer", *machine.vocab], rows)
    print()
