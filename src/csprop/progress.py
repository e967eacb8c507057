"""A bar that shows how far something is, in a notebook or on a terminal; and a limit of its time."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from time import monotonic, thread_time
from typing import Any

A_SECOND = 8
"""The largest number of times per second that a bar in a notebook is redrawn."""
Epoch = dict[str, Any]
"""One row of metrics.jsonl."""
_end: ContextVar[float | None] = ContextVar("end", default=None)


class OutOfTime(Exception):
    """Work took longer than its time limit."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End work with `OutOfTime` when it calls `check_time` after so many seconds.

    The processor time of this thread counts, so the other work of a machine does not decide the result.
    """
    before = _end.set(thread_time() + seconds)
    try:
        yield
    finally:
        _end.reset(before)


def check_time() -> None:
    """Raise `OutOfTime` if a limit is set and its time is over."""
    if (end := _end.get()) is not None and thread_time() > end:
        raise OutOfTime


def summary(row: Epoch) -> str:
    """Return the loss and the held-out accuracy of an epoch as text."""
    return f"loss {row['loss']:.4f}  acc {row['accuracy']:.2%}"


@contextmanager
def lines(
    label: str, on_line: Callable[[str], None], show: bool = True
) -> Iterator[Callable[[str], None]]:
    """Show the last line about work of unknown length; the callback also passes it to `on_line`."""
    with bar(label, None, show) as tell:

        def tell_line(line: str) -> None:
            tell(line, 0)
            on_line(line)

        yield tell_line


@contextmanager
def bar(
    label: str, total: int | None, show: bool = True, stays: bool = True
) -> Iterator[Callable[[str, int], None]]:
    """Show a bar, through a callback that takes the text beside it and the amount that is done.

    Args:
        label: the name of the work.
        total: the amount of work, if it is known.
        show: if False, show nothing.
        stays: if False, the bar disappears at the end.
    """
    notebook = show and _in_notebook()
    if not notebook and not (show and sys.stderr.isatty()):
        yield lambda text, done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    narrow = Column(no_wrap=True, min_width=min(len(label), 32))
    progress = Progress(
        TextColumn("{task.description}", markup=False, table_column=narrow),
        BarColumn(bar_width=12, table_column=Column(min_width=12)),
        TextColumn("{task.fields[text]}", markup=False),  # cut if the line is too long
        TimeElapsedColumn(table_column=Column(min_width=7)),
        console=Console(stderr=True), refresh_per_second=4, transient=not stays,
    )  # fmt: skip
    job, last = progress.add_task(label, total=total, text=""), monotonic()
    # Rich's own way to be shown in a notebook needs ipywidgets.
    output = _display(progress) if notebook else None

    def tell(text: str, done: int) -> None:
        nonlocal last
        progress.update(job, completed=done, text=text)
        if output is not None and monotonic() - last > 1 / A_SECOND:
            output.update(progress)
            last = monotonic()

    with nullcontext() if notebook else progress:
        try:
            yield tell
            progress.update(job, total=1, completed=1)  # it may have ended early
        finally:
            if output is not None:
                output.update(progress)


def _in_notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    from rich.console import Console

    return Console().is_jupyter


def _display(progress: Any) -> Any:
    from IPython.display import display  # pyright: ignore

    return display(progress, display_id=True)
