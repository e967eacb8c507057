"""Functions that the commands share: options, tables, words for the user, and the model of a run."""

import contextlib
import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from csprop.automata.names import escape
from csprop.cli.options import Arg
from csprop.errors import InputError

if TYPE_CHECKING:
    from csprop.proof.answers import CertifiedRun

Flag = Annotated[bool, Arg(hint="")]
"""An option without a value: off unless it is given."""
_fill = partial(textwrap.fill, break_long_words=False, break_on_hyphens=False)
Runs = Annotated[tuple[Path, ...], Arg("RUN...", positional=True)]


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The options of every command."""

    json: Flag = False
    """Print one JSON document on stdout."""


@dataclass(frozen=True, kw_only=True)
class RunArguments(Arguments):
    """The options of a command that uses the model of a run."""

    run: Annotated[Path, Arg("RUN", positional=True)]
    """A run directory, or one of `csprop zoo`, such as zoo:parity."""

    as_trained: Flag = False
    """Use the model as trained, even if the run is certified."""


def show_json(document: Any) -> None:
    """Print a JSON document on stdout."""
    print(json.dumps(document, indent=2, ensure_ascii=False))


def show_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print a table on stdout: the first column is aligned left, the others right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(markup=False, emoji=False, highlight=False)
    with console.capture() as shown:
        console.print(table)
    print("\n".join(line.rstrip() for line in shown.get().splitlines()))


def show_columns(rows: Sequence[tuple[str, str]]) -> None:
    """Print names, each with its text beside it, wrapped at 80 columns."""
    indent = max(len(name) for name, _ in rows) + 4
    for name, text in rows:
        show_text(text, f"  {name}".ljust(indent), " " * indent)


def show_facts(pairs: Iterable[tuple[str, str]]) -> None:
    """Print short names, each with its value beside it, wrapped at 80 columns."""
    for name, value in pairs:
        show_text(value, f"{name:<11}", " " * 11)


def show_text(text: str, first: str = "", indent: str = "") -> None:
    """Print a paragraph on stdout, wrapped at 80 columns."""
    print(_fill(text, 80, initial_indent=first, subsequent_indent=indent))


def show_next(*commands: str) -> None:
    """Print commands to try next."""
    print("Next:", *(f"  csprop {command}" for command in commands), sep="\n")


def draw(automaton: Any) -> str:
    """Return an automaton drawn as text, in ASCII if stdout cannot represent other characters."""
    from csprop.automata.export import to_text

    return to_text(automaton, ascii=not (sys.stdout.encoding or "utf-8").lower().startswith("utf"))


def say(line: str) -> None:
    """Print a line for the user on stderr, where it does not mix with the output."""
    with contextlib.suppress(BrokenPipeError):  # nobody reads stderr; the work goes on
        print(sentence(line), file=sys.stderr, flush=True)


def sentence(text: str) -> str:
    """Return a text that may contain file names as one line; on a terminal, wrapped between words."""
    line = escape(" ".join(text.splitlines()))
    if not sys.stderr.isatty():
        return line
    return _fill(line, shutil.get_terminal_size().columns) or line


def say_rows(task: Any) -> None:
    """Say what a file of labelled rows contains, before the work begins: a token may be misspelt."""
    from csprop.automata.names import join_names

    summary = task.summary
    classes = join_names([f"{name} {count:,}" for name, count in summary.classes.items()])
    labels = {"whole": "one for each row", "every step": "one for every token", "mixed": "mixed"}
    say(f"tokens: {join_names(task.vocab)}")
    say(
        f"{summary.rows:,} rows of {summary.shortest:,} to {summary.longest:,} tokens (median "
        f"{summary.median:g}), {summary.duplicates:,} of them duplicates"
    )
    say(f"labels: {labels[summary.labels]}; in the end: {classes}")
    if summary.contradictions:
        say(
            f"sequences that occur with different labels: {summary.contradictions:,}, in "
            f"{summary.contradicting_rows:,} rows; so some labels are wrong, or depend on something "
            "else"
        )


def check_file(path: Path) -> None:
    """Refuse a file that does not exist; if it is an example, say how to get it."""
    from csprop.data.shipped import EXAMPLES
    from csprop.files import open_file

    if not path.exists() and path.name in EXAMPLES:
        raise InputError(f"{path}: there is no such file: `csprop example {path.name}` writes it")
    with open_file(path):
        pass


def check_runs(paths: Iterable[Path]) -> None:
    """Refuse directories that neither are runs nor hold runs, before torch is imported."""
    from csprop.training.checkpoint import RunFolder
    from csprop.training.stored import stored_task

    for path in paths:
        if not any(path.glob("*/config.json")):
            stored_task(RunFolder(path))


def load(path: Path) -> Any:
    """Return a run with its model; torch is imported only if the run exists."""
    check_runs([path])
    from csprop.runs.run import load

    return load(path)


class TorchRun:
    """A run whose model runs in torch; `CertifiedRun` has the same methods and needs no torch."""

    def __init__(self, path: Path, as_trained: bool) -> None:
        self.run = load(path)
        from csprop.training import batches, metrics

        self.model = self.run.answering(as_trained)
        self.task, self.config, self.result = self.run.task, self.run.config, self.run.result
        self.locked = self.model is not self.run.model
        if self.locked:
            _say_locked(self.run)
        self.at_length = partial(metrics.at_length, self.model, self.task)
        self.exhaustive = partial(metrics.exhaustive, self.model, self.task)
        self.on_rows = partial(metrics.score, self.model)
        self.held_out = lambda: batches.training_data(self.task, self.config)[1]

    def answers(self, rows: list[list[int]]) -> list[tuple[int, list[float]]]:
        """Return the class of each sequence, and the probabilities of all classes."""
        from csprop.proof.locked_counter import LockedCounter
        from csprop.training.metrics import last_logits

        # The scores of a locked counter are 1 for the answer and 0 for the others.
        certain = isinstance(self.model, LockedCounter)
        return [
            (int(scores.argmax()), (scores if certain else scores.softmax(dim=0)).tolist())
            for scores in last_logits(self.model, rows)
        ]


def open_run(args: RunArguments) -> "CertifiedRun | TorchRun":
    """Return the run to ask; if its locked model answers, say so, and what is proven about it."""
    from csprop.proof.answers import load_certified

    certified = None if args.as_trained else load_certified(args.run)
    if certified is None:
        return TorchRun(args.run, args.as_trained)
    _say_locked(certified)
    return certified


def _say_locked(run: Any) -> None:
    say(f"{run.path}: {run.certificate.summary}; the locked model answers")
