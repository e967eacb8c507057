"""`csprop demo`: what csprop does, shown in a minute. Every number is computed while it is shown."""

import contextlib
import io
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from csprop import progress
from csprop.cli import common
from csprop.cli.learn import show_suspects
from csprop.errors import InputError
from csprop.training.checkpoint import refuse_zoo

if TYPE_CHECKING:
    from csprop.learning.learn import Learned
    from csprop.runs.demo import Measured, Proof, Tell

TASKS = ("parity", "mod3", "parenthesis")
INDENT = "   "


@dataclass(frozen=True, kw_only=True)
class Args(common.Arguments):
    """Show in a minute what csprop does: learn, lock, prove, draw, and find wrong labels.

    Three models learn three tasks and are measured beyond the trained length. csprop's are locked and
    proven. Then a machine is learned from a file of events with wrong labels. Exit code 0 means that
    all is proven, and that the file has a machine.

    Examples:
        csprop demo
        csprop demo --out runs/another
    """

    out: Path = Path("runs/demo")
    """Directory for the runs and the page."""


def run(args: Args) -> int:
    if args.out.exists():
        raise InputError(f"{args.out}: already exists: remove it, or choose another --out")
    refuse_zoo([args.out])
    args.out.mkdir(parents=True)
    with contextlib.redirect_stdout(io.StringIO()) if args.json else contextlib.nullcontext():
        found = _story(args.out)
    if args.json:
        common.show_json(found)
    return int(not (found["proven"] and found["events"]["clear"]))


def _story(out: Path) -> dict[str, Any]:
    """Tell it, and return its numbers."""
    from csprop.data.shipped import example
    from csprop.files import replace
    from csprop.tasks import get

    started = time.perf_counter()
    print("csprop in a minute. Every number below is computed now, on this machine.\n")
    print(
        "1. Learn. csprop's model learns three tasks from sequences of 16 tokens. Beside\n"
        "   it an LSTM, and the model as printed in the paper, learn from the same ones."
    )
    for task in TASKS:
        print(f"   {task:<13}{get(task).description}")
    with _parts("learn", 3 * len(TASKS)) as tell:
        from csprop.learning.learn import learn
        from csprop.report.runs import page
        from csprop.runs import demo

        runs, models = demo.learn(TASKS, out, tell)
    _show_models(models)
    print(
        "2. Lock and prove. csprop's models are locked: their states become exact, and\n"
        "   cannot drift. Each is compared with its task, in every state it can reach."
    )
    with _parts("prove", len(runs)) as tell:
        proofs = demo.lock(runs, tell)
    _show_proofs(proofs)
    print("3. Draw. These are the machines that the locked models have become.\n")
    for task, proof in proofs.items():
        if proof.certificate.automaton is not None:
            print(f"{task}:\n{common.draw(proof.certificate.automaton)}")
    events = example("events.jsonl")
    print(
        f"4. Find wrong labels. {events.name} has sequences of events at a login, each\n"
        "   with a label, and some labels are wrong. csprop looks for their machine."
    )
    with _parts("learn the file", 1) as tell:
        on_event = lambda line: tell(line, False)  # noqa: E731
        learned = learn(events, out=out / "events", progress=False, on_event=on_event)
        tell(learned.verdict.sentence, True)
    _show_learned(learned, out / "events")
    print("5. Write a page, with these models to step through, in one file.")
    with _parts("page", 1) as tell:
        folders = [out / name for name in (*runs, "events") if (out / name).exists()]
        content = page(folders, say=lambda line: tell(line, False)).encode()
        replace((out / "page.html").resolve(), content)
        tell(f"{len(content) / 1000:,.0f} kB", True)
    print(f"   {out / 'page.html'}: open it in a browser.\n")
    seconds = round(time.perf_counter() - started, 1)
    _show_next(out, seconds)
    return {
        "proven": all(each.certificate.proven for each in proofs.values()),
        "tasks": {task: _list_numbers(models[task], proofs[task]) for task in models},
        "sequences": {length: demo.SAMPLING.count(length) for length in demo.LENGTHS},
        "events": {
            "file": str(events),
            "rows": learned.verdict.rows,
            "clear": learned.verdict.clear,
            "verdict": learned.verdict.sentence,
            "states": learned.verdict.states,
            "suspects": [asdict(each) for each in learned.suspects],
        },
        "page": str(out / "page.html"),
        "seconds": seconds,
    }


@contextmanager
def _parts(label: str, total: int) -> "Iterator[Tell]":
    """A bar for a step; where there is no terminal, a line for each part of it."""
    done = 0
    with progress.bar(label, total, stays=False) as show:

        def tell(said: str, finished: bool) -> None:
            nonlocal done
            done += finished
            show(said, done)
            if finished and not sys.stderr.isatty():
                common.say(f"{label} {done}/{total}: {said}")

        sys.stdout.flush()
        yield tell
    print()


def _show_accuracies(rows: list[tuple[str, str, dict[int, float]]]) -> None:
    """Print the accuracy of models by length; each has a task and a name."""
    from csprop.runs.demo import LENGTHS
    from csprop.training.scores import percent

    lengths = "".join(f"{length:>9,}" for length in LENGTHS)
    print(f"   {'right answers at':<28}{lengths} tokens")
    for task, name, accuracy in rows:
        shares = "".join(f"{percent(each):>9}" for each in accuracy.values())
        print(f"   {task:<13}{name:<15}{shares}")


def _show_models(models: "dict[str, dict[str, Measured]]") -> None:
    from csprop.runs.demo import LENGTHS, LSTM, PRINTED, SAMPLING, TRAINED

    names = (TRAINED, LSTM, PRINTED)
    _show_accuracies(
        [
            ("" if number else task, name, by_name[name].accuracy)
            for task, by_name in models.items()
            for number, name in enumerate(names)
        ]
    )
    few, *_, many = LENGTHS
    drifts = []
    for name in names:
        right = {task: by_name[name].accuracy for task, by_name in models.items()}
        if tasks := [task for task, accuracy in right.items() if accuracy[few] == 1 > accuracy[many]]:
            drifts.append(f"{name} ({', '.join(tasks)})")
    *counts, last = (f"{SAMPLING.count(length):,}" for length in LENGTHS)
    print(f"\n   Tried on {', '.join(counts)} and {last} random sequences, the same for all models.")
    if drifts:
        common.show_text(
            f"Drift: small errors add up with the tokens. Right at {few} tokens and not at {many:,} "
            f"are: {'; '.join(drifts)}.",
            INDENT,
            INDENT,
        )
    print()


def _show_proofs(proofs: "dict[str, Proof]") -> None:
    from csprop.runs.demo import LOCKED

    for task, each in proofs.items():
        size = each.certificate.size.replace(" and ", ", ")
        proof = each.certificate.summary + (f": {size}" if size else "")
        print(f"   {task:<13}{proof} ({each.seconds:.1f} s)")
    print()
    rows = [(task, LOCKED, each.accuracy) for task, each in proofs.items() if each.accuracy]
    if rows:
        _show_accuracies(rows)
    print(
        "\n   Accuracies are of random samples. A proof is about every sequence, and there\n"
        "   is none for the LSTM and the printed model, however well they do here.\n"
    )


def _show_learned(learned: "Learned", path: Path) -> None:
    common.show_text(f"{learned.verdict.sentence}.", INDENT, INDENT)
    print()
    if learned.verdict.clear:
        print(common.draw(learned.machine))
        if count := len(learned.suspects):
            print(f"   {count:,} label{' looks' if count == 1 else 's look'} wrong:\n")
            show_suspects(learned.suspects, str(path))


def _show_next(out: Path, seconds: float) -> None:
    """Print commands to try next, as they have to be typed here."""
    print(f"This took {seconds:.0f} seconds. Try next:\n")
    here, activate = shutil.which("csprop"), Path(sys.prefix) / "bin" / "activate"
    if activate.exists() and (here is None or Path(here).parent != activate.parent):
        where = activate.relative_to(Path.cwd()) if activate.is_relative_to(Path.cwd()) else activate
        print(f"   source {shlex.quote(str(where))}")
    print(
        f"   csprop explore {shlex.quote(str(out / 'parity'))}\n"
        "      step through the model in the browser\n"
        "   csprop train group-A5\n"
        "      a task of 60 states\n"
        "   csprop learn YOUR-FILE.jsonl\n"
        '      your own events, in lines such as {"sequence": "ok fail", "label": "in"}'
    )


def _list_numbers(models: "dict[str, Measured]", proof: "Proof") -> dict[str, Any]:
    """Return the numbers of one task."""
    from csprop.runs.demo import LOCKED

    certificate, training = proof.certificate, {name: asdict(each) for name, each in models.items()}
    accuracy = {name: each.pop("accuracy") for name, each in training.items()}
    return {
        "accuracy": accuracy | {LOCKED: proof.accuracy},
        "training": training,
        "certificate": {
            "proven": certificate.proven,
            "verdict": certificate.verdict,
            "statement": certificate.statement,
            "states": None if certificate.automaton is None else len(certificate.automaton),
            "counters": getattr(certificate.automaton, "counters", 0),
            "seconds": round(proof.seconds, 2),
        },
    }
