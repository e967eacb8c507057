"""What several verbs share: parsing, tables, progress."""

import contextlib
import io
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

import tyro
from rich.console import Console
from rich.table import Table

from csprop.automata.names import visible
from csprop.errors import InputError

A = TypeVar("A")
Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]
"""An option that is given or not, with no opposite."""
Epoch = dict[str, Any]
"""A row of the metrics."""


def parse(arguments: type[A], verb: str, argv: Sequence[str], default: A | None = None) -> A:
    """A verb's dataclass from its command line."""
    given: dict[str, Any] = {} if default is None else {"default": default}
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                arguments,
                prog=f"csprop {verb}",
                args=argv,
                config=(tyro.conf.OmitArgPrefixes,),
                **given,
            )
    except SystemExit as stop:
        if stop.code:
            raise InputError(_sentence(complaint.getvalue(), verb)) from None
        raise


def _sentence(box: str, verb: str) -> str:
    """The first words of tyro's framed complaint, and the option it thinks was meant."""
    lines = [line.strip("│| ") for line in box.splitlines()[1:]]  # the first has the title
    parts = re.split(r" *[─╰╯+-]{5,} *", " ".join(lines))
    said = next(filter(None, parts), "this cannot be read")
    meant = re.search(r"Perhaps you meant:\W+(--[\w-]+)", " ".join(lines))
    hint = f"did you mean {meant[1]}?" if meant else f"see csprop {verb} --help"
    said = re.sub(r"^Error parsing [\w-]+: ", "", said)
    return said if ": write " in said else f"{said.rstrip('.')}; {hint}"


def show_json(document: Any) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False))


def show_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """On stdout; the first column to the left, the others to the right."""
    table = Table(title=title or None, title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(markup=False, emoji=False, highlight=False)
    with console.capture() as shown:
        console.print(table)
    print(shown.get(), end="")


def show_text(text: str) -> None:
    """A paragraph on stdout."""
    print(textwrap.fill(text, 80, break_long_words=False, break_on_hyphens=False))


def say(line: str) -> None:
    """Words for people, on stderr."""
    with contextlib.suppress(BrokenPipeError):  # nobody reads the progress; the work goes on
        print(one_line(line), file=sys.stderr, flush=True)


def one_line(text: str) -> str:
    """Text that may have names of files in it, as one line on a terminal."""
    return visible(" ".join(text.splitlines()))


@contextmanager
def progress(label: str, epochs: int, plain: bool = False) -> Iterator[Callable[[Epoch], None]]:
    """A callback for every epoch: a bar on a terminal, plain lines elsewhere."""
    if plain or not sys.stderr.isatty():
        yield lambda row: say(
            f"{label}  epoch {row['epoch']:>3}/{epochs}  {_summary(row)}  f1 {row['f1']:.3f}  "
            f"{row['seconds']:.1f} s"
        )
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=12),
        TextColumn("{task.completed:.0f}/{task.total:.0f} {task.fields[summary]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=4) as bar:
        job = bar.add_task(label, total=epochs, summary="")
        yield (lambda row: bar.update(job, completed=row["epoch"], summary=_summary(row)))


def _summary(row: Epoch) -> str:
    return f"loss {row['loss']:.4f}  acc {row['accuracy']:.2%}"


def answering(run: Any, as_trained: bool) -> Any:
    """The model that a run answers with; where it is the locked one, that is said."""
    model = run.answering(as_trained)
    if model is not run.model:
        certificate = run.certificate
        proof = certificate.verdict
        if certificate.unchecked:
            proof = f"its certificate cannot be checked ({certificate.unchecked})"
        say(f"{run.path}: {proof}; the locked model answers")
    return model
