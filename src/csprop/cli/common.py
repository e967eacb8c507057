"""Functions that the commands share: parse arguments, print tables, show progress."""

import contextlib
import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import parent_process
from pathlib import Path
from typing import Annotated, Any, TypeVar

from csprop import progress as bar
from csprop.automata.names import escape
from csprop.cli import help
from csprop.cli.options import Arg, filled, options, parsed
from csprop.errors import InputError

A = TypeVar("A")
Flag = Annotated[bool, Arg(hint="")]
"""An option without a value: off unless it is given."""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The options of every command."""

    json: Flag = False
    """Print one JSON document on stdout."""


def parse(
    arguments: type[A],
    verb: str,
    argv: Sequence[str],
    defaults: Callable[[dict[str, Any]], A] | None = None,
    *,
    usage: Sequence[str] = (),
    short: Mapping[str, Sequence[str]] | None = None,
) -> A:
    """Parse the arguments of a command into its dataclass.

    Args:
        arguments: the dataclass; its docstrings are the text of `--help`.
        verb: the name of the command.
        argv: the arguments that follow the name.
        defaults: takes the values that the user gave, by option name, and returns a dataclass with the
            defaults of the other options; by default, the defaults of the class.
        usage: the ways to write the command, where one of several arguments is needed.
        short: for a command with many options, the options that `--help` shows, by heading;
            `--help-all` lists all.

    Raises:
        InputError: an argument is unknown, malformed or missing, or a value does not fit.
        SystemExit: help was asked for, and has been printed.
    """
    known, given, default = list(options(arguments)), {}, None
    written = help.usages(verb, known, usage)
    asked = {*help.HELP, help.ALL}.intersection(argv)
    try:
        given = parsed(verb, known, [each for each in argv if each not in asked], " or ".join(written))
        default = None if defaults is None else defaults(given)
    except InputError:
        if not asked:
            raise
    if asked:
        known = options(arguments, default)
        print(help.page(verb, arguments, list(known), written, None if help.ALL in asked else short))
        raise SystemExit(0)
    return filled(arguments, known, given, default)


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
        first = f"  {name}".ljust(indent)
        lines = textwrap.wrap(text, 80 - indent, break_long_words=False, break_on_hyphens=False)
        print(f"\n{' ' * indent}".join([first + lines[0], *lines[1:]]))


def show_text(text: str) -> None:
    """Print a paragraph on stdout, wrapped at 80 columns."""
    print(textwrap.fill(text, 80, break_long_words=False, break_on_hyphens=False))


def drawing(automaton: Any) -> str:
    """Return an automaton drawn as text, in ASCII if stdout cannot represent other characters."""
    from csprop.automata.export import to_text

    text = to_text(automaton)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return to_text(automaton, ascii=True)
    return text


def say(line: str) -> None:
    """Print a line for the user on stderr, where it does not mix with the output."""
    with contextlib.suppress(BrokenPipeError):  # nobody reads stderr; the work goes on
        print(sentence(line), file=sys.stderr, flush=True)


def sentence(text: str) -> str:
    """Return a text that may contain file names as one line; on a terminal, wrapped between words."""
    line = escape(" ".join(text.splitlines()))
    if not sys.stderr.isatty():
        return line
    width = shutil.get_terminal_size().columns
    return textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) or line


def say_epoch(task: str, epochs: int, rows: Mapping[int, bar.Epoch]) -> None:
    """Print a line about an epoch, unless a bar on a terminal shows it.

    Args:
        task: the name of the task.
        epochs: the largest number of epochs.
        rows: the metrics of each seed; the line shows the worst.
    """
    if sys.stderr.isatty() and parent_process() is None:  # several processes have no bar
        return
    from csprop.training.workers import label_seeds, worst_row

    row = worst_row(rows)
    say(
        f"{label_seeds(task, list(rows))}  epoch {row['epoch']:>3}/{epochs}  {bar.summary(row)}  "
        f"f1 {row['f1']:.3f}  {row['seconds']:.1f} s"
    )


def check_file(path: Path, option: str = "") -> None:
    """Refuse a file that does not exist; if it is an example, say how to get it.

    Args:
        path: the file.
        option: the option that names it, if one does.
    """
    from csprop.data.shipped import EXAMPLES
    from csprop.files import open_file

    try:
        if not path.exists() and path.name in EXAMPLES:
            raise InputError(f"{path}: there is no such file: `csprop example {path.name}` writes it")
        with open_file(path):
            pass
    except InputError as error:
        raise InputError(f"{option} {error}".strip()) from None


def check_run(path: Path) -> None:
    """Refuse a directory that is not a run, before torch is imported."""
    from csprop.training.checkpoint import RunFolder
    from csprop.training.stored import stored_task

    stored_task(RunFolder(path))


def load(path: Path) -> Any:
    """Return a run with its model; torch is imported only if the run exists."""
    check_run(path)
    from csprop.runs.run import load

    return load(path)


def answering(run: Any, as_trained: bool) -> Any:
    """Return the model that answers for a run; if it is the locked one, say so on stderr."""
    model = run.answering(as_trained)
    if model is not run.model:
        say_locked(run)
    return model


def say_locked(run: Any) -> None:
    """Say on stderr that the locked model answers, and what is proven about it."""
    proof = run.certificate.verdict
    if run.certificate.unchecked:
        proof = f"the certificate could not be checked ({run.certificate.unchecked})"
    say(f"{run.path}: {proof}; the locked model answers")
