"""A bar that shows how far something is: in a notebook, or on a terminal, and nowhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

A_SECOND = 8
"""The largest number of times per second that a bar in a notebook is redrawn."""

Epoch = dict[str, Any]
"""One row of metrics.jsonl."""


@contextmanager
def epochs(label: str, most: int, show: bool = True) -> Iterator[Callable[[Epoch], None]]:
    """Show the progress of training, through a callback to be called after every epoch.

    Args:
        label: the name of the model or task.
        most: the largest number of epochs.
        show: if False, show nothing.
    """
    with _bar(label, most, show) as tell:
        yield lambda row: tell(f"{row['epoch']}/{most} {summary(row)}", row["epoch"])


@contextmanager
def lines(
    label: str, on_line: Callable[[str], None], show: bool = True
) -> Iterator[Callable[[str], None]]:
    """Show the last line about work of unknown length, through a callback.

    Args:
        label: the name of the work.
        on_line: is called with each line, too.
        show: if False, show nothing.
    """
    with _bar(label, None, show) as tell:

        def told(line: str) -> None:
            tell(line, 0)
            on_line(line)

        yield told


@contextmanager
def parts(label: str, total: int, show: bool = True) -> Iterator[Callable[[str, int], None]]:
    """Show a bar of the parts that are done, through a callback.

    The callback takes a description of the current part, and the number of parts that are done.

    Args:
        label: the name of the work.
        total: the number of parts.
        show: if False, show nothing.
    """
    with _bar(label, total, show, stays=False) as tell:
        yield tell


def summary(row: Epoch) -> str:
    """Return the loss and the held-out accuracy of an epoch as text."""
    return f"loss {row['loss']:.4f}  acc {row['accuracy']:.2%}"


@contextmanager
def _bar(
    label: str, total: int | None, show: bool, stays: bool = True
) -> Iterator[Callable[[str, int], None]]:
    """Show a bar; the callback takes the text beside it, and the amount that is done."""
    notebook = show and _in_notebook()
    if not notebook and not (show and sys.stderr.isatty()):
        yield lambda said, done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    # Where the line is too long, what is said is cut.
    columns = (
        TextColumn(
            "{task.description}",
            markup=False,
            table_column=Column(no_wrap=True, min_width=min(len(label), 32)),
        ),
        BarColumn(bar_width=12, table_column=Column(min_width=12)),
        TextColumn("{task.fields[said]}", markup=False),
        TimeElapsedColumn(table_column=Column(min_width=7)),
    )
    progress = Progress(
        *columns, console=Console(stderr=True), refresh_per_second=4, transient=not stays
    )
    job = progress.add_task(label, total=total, said="")
    with _displayed(progress) if notebook else _on_terminal(progress) as refresh:

        def tell(said: str, done: int) -> None:
            progress.update(job, completed=done, said=said)
            refresh()

        yield tell
        progress.update(job, total=1, completed=1)  # it may have ended early


def _in_notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    from rich.console import Console

    return Console().is_jupyter


@contextmanager
def _on_terminal(progress: "Progress") -> Iterator[Callable[[], None]]:
    with progress:
        yield lambda: None


@contextmanager
def _displayed(progress: "Progress") -> Iterator[Callable[[], None]]:
    """In a notebook, as HTML that is replaced: rich's own way there needs ipywidgets."""
    from IPython.display import display  # pyright: ignore

    shown: Any = display(progress, display_id=True)
    last = monotonic()

    def refresh() -> None:
        nonlocal last
        if monotonic() - last > 1 / A_SECOND:
            shown.update(progress)
            last = monotonic()

    try:
        yield refresh
    finally:
        shown.update(progress)
