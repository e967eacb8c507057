"""`csprop learn`: from labelled sequences to the machine behind them."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from csprop.cli import common
from csprop.cli.options import Arg
from csprop.errors import InputError

if TYPE_CHECKING:
    from csprop.automata.automaton import Automaton, CounterAutomaton
    from csprop.data.summary import Summary
    from csprop.learning.learn import Learned

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
    from csprop.automata.names import join_names
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
        common.say(f"tokens: {join_names(task.vocab)}")
        for line in _told(task.summary):
            common.say(line)
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


def _told(found: "Summary") -> list[str]:
    """Return lines about the content of a file."""
    classes = ", ".join(f"{name} {count:,}" for name, count in list(found.classes.items())[:MOST_SHOWN])
    more = len(found.classes) - MOST_SHOWN
    labels = {"whole": "one for each row", "every step": "one for every token", "mixed": "mixed"}
    lines = [
        f"{found.rows:,} rows of {found.shortest:,} to {found.longest:,} tokens (median "
        f"{found.median:g}), {found.duplicates:,} of them duplicates",
        f"labels: {labels[found.labels]}; in the end: {classes}"
        f"{f', … ({more} more)' if more > 0 else ''}",
    ]
    if found.contradictions:
        lines.append(
            f"sequences that occur with different labels: {found.contradictions:,}, in "
            f"{found.contradicting_rows:,} rows; so some labels are wrong, or depend on something else"
        )
    return lines


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
    from csprop.learning.verdict import FEW, LONGEST

    common.show_text(learned.verdict.text)
    if path is None:
        print()
        common.show_text(
            "Nothing was written. More rows, or rows with fewer wrong labels, may show a machine, "
            "unless the labels depend on something that is not in the sequences."
        )
        return
    print()
    if isinstance(learned.machine, CounterMachine):
        _show_counting(learned.machine)
    else:
        _show_finite(learned.machine, learned.verdict.unseen)
    if learned.suspects:
        shown = [
            [each.short(LONGEST), str(each.line), each.label, each.answer]
            for each in learned.suspects[:FEW]
        ]
        title = f"Suspects: the first {FEW} of {len(learned.suspects):,}, all in {path}/suspects.jsonl"
        if len(learned.suspects) <= FEW:
            title = f"Suspects, also in {path}/suspects.jsonl"
        common.show_table(["sequence", "line", "label", "machine says"], shown, title)
        print()
    print(f"Next:\n  csprop predict {path}\n  csprop automaton {path}\n  csprop explore {path}")


def _show_finite(machine: "Automaton", unseen: frozenset[tuple[int, int]]) -> None:
    """Print a table of the states, unless it is large."""
    if max(len(machine), machine.symbols) > MOST_SHOWN:
        return
    rows = [
        [
            _marked(machine, state),
            "" if output is None else machine.classes[output],
            *(
                f"{there}{'?' if (state, token) in unseen else ''}"
                for token, there in enumerate(machine.transitions[state])
            ),
        ]
        for state, output in enumerate(machine.outputs)
    ]
    common.show_table(["state", "answer", *machine.vocab], rows)
    print()


def _show_counting(machine: "CounterAutomaton") -> None:
    """Print what is counted, and a table of the transitions unless it is large."""
    from csprop.automata.arrows import arrows, counter_names

    for counter, name in enumerate(counter_names(machine)):
        added = zip(machine.vocab, (row[counter] for row in machine.increments), strict=True)
        said = [
            f"{token} adds {size}" if size > 0 else f"{token} takes {-size} off"
            for token, size in added
            if size
        ]
        common.show_text(f"It counts: {name} begins at 0; {', '.join(said)}; nothing else changes it.")
    print()
    rows = [
        [
            _marked(machine, each.state),
            "" if (output := machine.outputs[each.state]) is None else machine.classes[output],
            label,
            str(each.there),
        ]
        for each in arrows(machine)
        for label in each.labels
    ]
    if len(rows) <= 2 * MOST_SHOWN:
        common.show_table(["state", "answer", "token : count after it", "next"], rows)
        print()


def _marked(machine: "Automaton | CounterAutomaton", state: int) -> str:
    """Return the number of a state; the first one has an arrow."""
    return f"{'→' if state == machine.start else ' '} {state}"
